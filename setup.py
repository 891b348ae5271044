"""The compiled kernels: one wheel for all versions of Python, none where there is no compiler.

RANGEBOUND_KERNEL=required makes a compiler that is missing or fails an error; RANGEBOUND_KERNEL=none builds the wheel
for every place, tagged py3-none-any, in which NumPy and PyTorch do the work.
"""

import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

WANTED = os.environ.get("RANGEBOUND_KERNEL", "optional")
if WANTED not in ("optional", "required", "none"):
    raise SystemExit(f"RANGEBOUND_KERNEL={WANTED}: must be optional, required or none")

# Free-threaded Python has no limited API before 3.15, so it gets a wheel for each version.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
FLAGS = {"msvc": ["/O2"]}
GNU_FLAGS = ["-O3", "-fno-trapping-math", "-fno-math-errno"]


class BuildKernels(build_ext):
    """The flags are those of the compiler that is found."""

    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = FLAGS.get(self.compiler.compiler_type, GNU_FLAGS)
        super().build_extension(ext)


class BuildWithProofs(build_py):
    """The package has the files of `proofs/`, for the certificates that it writes for Coq."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "rangebound", "mechanisms")
            for path in Path("proofs").rglob("*.v"):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder / path)


def kernel(room: str) -> Extension:
    return Extension(
        f"rangebound.{room}._kernel",
        [f"src/rangebound/{room}/_kernel.c"],
        depends=["src/rangebound/kernel.h"],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
        py_limited_api=LIMITED,
        optional=WANTED == "optional",
    )


setup(
    ext_modules=[] if WANTED == "none" else [kernel("sampling"), kernel("learn")],
    cmdclass={"build_ext": BuildKernels, "build_py": BuildWithProofs},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED and WANTED != "none" else {},
)

"""The compiled kernels. They are optional: without a compiler the package installs and works in NumPy and PyTorch."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"rangebound.{room}._kernel",
            [f"src/rangebound/{room}/_kernel.c"],
            depends=["src/rangebound/kernel.h"],
            extra_compile_args=["-O3", "-fno-trapping-math", "-fno-math-errno"],
            optional=True,
        )
        for room in ("sampling", "learn")
    ]
)

"""The compiled kernel of the draw. It is optional: without a compiler the package installs and draws in NumPy."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "rangebound.sampling._kernel",
            ["src/rangebound/sampling/_kernel.c"],
            extra_compile_args=["-O3", "-fno-trapping-math", "-fno-math-errno"],
            optional=True,
        )
    ]
)

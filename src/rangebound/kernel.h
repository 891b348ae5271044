/* What the compiled kernels have in common. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Several versions of a function, of which the loader takes the best that the processor knows. */
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define TUNED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TUNED
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* What a module of ours declares: that it needs no GIL, since it has no state that is ever written. Only free-threaded
   Python asks; it has no limited API before 3.15, and the limited API of 3.11 no such slot (docs/decisions). */
#ifdef Py_mod_gil
#define WITHOUT_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define WITHOUT_GIL
#endif

/* The draw of one number from noise that is conditioned to an interval, then rounded to the public lattice.

   The method, the meaning of every field and the proof of the margin are in docs/sampling.md; inversion.py is the same
   in NumPy. Nothing here branches, loops or allocates by the location: every choice is between two computed values. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Fields of a plan, in the order of plan.py. */
enum {
    ANSWER_LOWER, ANSWER_UPPER, GIVEN_LOWER, GIVEN_UPPER, LIMIT,
    OUTPUT_LOWER, OUTPUT_UPPER, COLLECTED_LOWER, COLLECTED_UPPER,
    PER_SCALE, SCALE_STEPS, PER_STEP, NUMERATOR, DENOMINATOR, MARGIN, MARGIN_GROWTH, FIELDS
};
enum { LAPLACE, GAUSSIAN, PLAIN_LAPLACE, PLAIN_GAUSSIAN, FAMILIES };

/* Rows of the table, in the order of tables.py. */
enum { CELLS = 16, TAIL_CELLS = 32, TAIL_END = 12, BINADES = 40 };
enum { POWER_ROW = 0, LOG_ROW = POWER_ROW + CELLS, TAIL_ROW = LOG_ROW + CELLS,
       INVERSE_ROW = TAIL_ROW + TAIL_END * TAIL_CELLS, ROWS = INVERSE_ROW + BINADES * CELLS };

#define FARTHEST_EXPONENT 100.0       /* 2^-100 is nothing beside any w that is not undecided */
#define FARTHEST_TAIL (TAIL_END - 1e-9)
#define RARE 0x1p-20                  /* rarer tails are left to ball arithmetic */
#define PER_LN2 1.4426950408889634
#define LN2 0.6931471805599453

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define TUNED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TUNED
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

INLINE double smaller(double a, double b) { return a < b ? a : b; }
INLINE double larger(double a, double b) { return a > b ? a : b; }

INLINE double magnitude(double a) { return larger(a, -a); }

/* `a` if `yes` is 1, `b` if it is 0, by masks: a jump that follows random bits would be mispredicted half the time. */
INLINE double either(int yes, double a, double b) {
    uint64_t x, y, mask = 0 - (uint64_t)yes;
    double chosen;
    memcpy(&x, &a, 8);
    memcpy(&y, &b, 8);
    x = (x & mask) | (y & ~mask);
    memcpy(&chosen, &x, 8);
    return chosen;
}

/* `a` with its sign changed if `yes` is 1. */
INLINE double mirrored(int yes, double a) {
    uint64_t x;
    memcpy(&x, &a, 8);
    x ^= (uint64_t)yes << 63;
    memcpy(&a, &x, 8);
    return a;
}

/* The nearest integer, and for numbers of 2^51 and more some integer so near that the rest is exact. */
INLINE double nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

INLINE double polynomial(const double *c, double t) {
    double t2 = t * t, t4 = t2 * t2;
    return ((c[0] + c[1] * t) + (c[2] + c[3] * t) * t2) + ((c[4] + c[5] * t) + (c[6] + c[7] * t) * t2) * t4;
}

/* Row `cell` at a place from 0 to 1 inside it. */
INLINE double row(const double *table, int64_t cell, double place) {
    return polynomial(table + 8 * cell, 2.0 * place - 1.0);
}

/* w = m 2^-e with m in [1, 2): the leading bits of m choose a cell, the others the place in it. */
INLINE void taken_apart(double w, int64_t *e, int64_t *cell, double *place) {
    uint64_t bits;
    double m;
    memcpy(&bits, &w, 8);
    *e = 1023 - (int64_t)(bits >> 52);
    *cell = (int64_t)(bits >> 48) & (CELLS - 1);
    bits = (bits & 0x0000ffffffffffffULL) | 0x3ff0000000000000ULL;
    memcpy(&m, &bits, 8);
    *place = (m - 1.0) * CELLS;
}

INLINE double falling(const double *table, double a) { /* e^-a for a >= 0 */
    double x = smaller(a * PER_LN2, FARTHEST_EXPONENT);
    int64_t whole = (int64_t)(int32_t)x;
    double f = (x - (double)(int32_t)whole) * CELLS;
    int64_t cell = (int64_t)(int32_t)f;
    uint64_t bits = (uint64_t)(1023 - whole) << 52;
    double power;
    memcpy(&power, &bits, 8);
    return power * row(table, POWER_ROW + cell, f - (double)(int32_t)cell);
}

INLINE double logarithm(const double *table, double w) {
    int64_t e, cell;
    double place;
    taken_apart(w, &e, &cell, &place);
    return row(table, LOG_ROW + cell, place) - (double)(int32_t)e * LN2;
}

INLINE double tail(const double *table, double z) { /* P(Z > z) for z >= 0 */
    double x = smaller(z, FARTHEST_TAIL) * TAIL_CELLS;
    int64_t cell = (int64_t)(int32_t)x;
    return row(table, TAIL_ROW + cell, x - (double)(int32_t)cell);
}

INLINE double inverse(const double *table, double w) { /* z with P(Z > z) = w <= 1/2 */
    int64_t e, cell;
    double place;
    taken_apart(w, &e, &cell, &place);
    e = e < 1 ? 1 : (e > BINADES ? BINADES : e);
    return row(table, INVERSE_ROW + (e - 1) * CELLS + cell, place);
}

/* The middle of the word's place in (0, 1), with relative precision near 0. */
INLINE double uniform(uint64_t word) {
    return (double)(int64_t)(word >> 32) * 0x1p-32 + ((double)(int64_t)(word & 0xffffffffULL) + 0.5) * 0x1p-64;
}

INLINE int one(int family, const double *plan, const double *table, uint64_t word, double answer, double *out) {
    double up = uniform(word), down = uniform(~word);
    double q = smaller(larger(answer, plan[ANSWER_LOWER]), plan[ANSWER_UPPER]);
    double centre = q, noise, w, mass;
    if (family == PLAIN_LAPLACE) {
        int right = up > down;
        mass = 2.0;
        w = 2.0 * smaller(up, down);
        noise = mirrored(right, logarithm(table, w));
    } else if (family == PLAIN_GAUSSIAN) {
        int left = up < down;
        mass = 1.0;
        w = smaller(up, down);
        noise = mirrored(left, inverse(table, w));
    } else if (family == LAPLACE) {
        centre = smaller(larger(q, plan[GIVEN_LOWER]), plan[GIVEN_UPPER]);
        double reach = larger(plan[LIMIT] - magnitude(q - centre), 0.0);
        double below = falling(table, smaller(centre - plan[GIVEN_LOWER], reach) * plan[PER_SCALE]);
        double above = falling(table, smaller(plan[GIVEN_UPPER] - centre, reach) * plan[PER_SCALE]);
        mass = (1.0 - below) + (1.0 - above);
        int left = up * mass < 1.0 - below;
        w = either(left, below, above) + either(left, up, down) * mass;
        noise = mirrored(!left, logarithm(table, w));
    } else {
        double low = (plan[GIVEN_LOWER] - q) * plan[PER_SCALE], high = (plan[GIVEN_UPPER] - q) * plan[PER_SCALE];
        int flip = low > -high;
        double deep = either(flip, high, -low), shallow = either(flip, -low, high); /* deep >= |shallow| */
        double first = either(flip, down, up), second = either(flip, up, down);
        double far = tail(table, deep), near = tail(table, magnitude(shallow));
        int astride = shallow > 0.0;
        mass = either(astride, 1.0 - near, near) - far;
        double w1 = far + first * mass, w2 = either(astride, near, 1.0 - near) + second * mass;
        int lower = w1 < w2;
        w = smaller(w1, w2);
        noise = mirrored(lower ^ flip, inverse(table, w));
    }
    noise *= plan[SCALE_STEPS];
    double place = centre * plan[PER_STEP];
    double whole = nearest(place);
    double offset = (place - whole) + noise;
    double steps = nearest(offset);
    double value = (whole + steps) * plan[NUMERATOR] / plan[DENOMINATOR];
    value = smaller(larger(value, plan[OUTPUT_LOWER]), plan[OUTPUT_UPPER]);
    /* What falls beyond an end belongs to the end, even if the nearest multiple lies inside. */
    double under = offset - (plan[COLLECTED_LOWER] - whole);
    double over = (plan[COLLECTED_UPPER] - whole) - offset;
    value = either(under < 0.0, plan[OUTPUT_LOWER], value);
    *out = either(over < 0.0, plan[OUTPUT_UPPER], value);
    double margin = plan[MARGIN] + plan[MARGIN_GROWTH] * (magnitude(place) + magnitude(noise));
    int sure = (magnitude(offset - steps) < 0.5 - margin) & (magnitude(under) > margin) & (magnitude(over) > margin);
    return !(sure & (w >= mass * RARE)); /* what is NaN is not sure */
}

#define MANY(NAME, FAMILY)                                                                                             \
    TUNED static int64_t NAME(const double *plan, const double *table, const uint64_t *words, const double *answers,   \
                              double *out, uint8_t *undecided, int64_t n) {                                            \
        int64_t count = 0;                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int open = one(FAMILY, plan, table, words[i], answers[i], out + i);                                        \
            undecided[i] = (uint8_t)open;                                                                              \
            count += open;                                                                                             \
        }                                                                                                              \
        return count;                                                                                                  \
    }
MANY(many_laplace, LAPLACE)
MANY(many_gaussian, GAUSSIAN)
MANY(many_plain_laplace, PLAIN_LAPLACE)
MANY(many_plain_gaussian, PLAIN_GAUSSIAN)

typedef int64_t (*many)(const double *, const double *, const uint64_t *, const double *, double *, uint8_t *, int64_t);
static const many MANY_OF[FAMILIES] = {many_laplace, many_gaussian, many_plain_laplace, many_plain_gaussian};

static int fits(int family, const Py_buffer *plan, const Py_buffer *table) {
    if (family >= 0 && family < FAMILIES && plan->len == FIELDS * 8 && table->len == ROWS * 8 * 8) return 1;
    PyErr_SetString(PyExc_ValueError, "kernel: family, plan or table of the wrong size");
    return 0;
}

static PyObject *draw(PyObject *self, PyObject *args) {
    int family;
    Py_buffer plan, table, words, answers, out, undecided;
    int64_t count = -1;
    if (!PyArg_ParseTuple(args, "iy*y*y*y*w*w*", &family, &plan, &table, &words, &answers, &out, &undecided)) return NULL;
    int64_t n = undecided.len;
    if (fits(family, &plan, &table)) {
        if (words.len == 8 * n && answers.len == 8 * n && out.len == 8 * n) {
            Py_BEGIN_ALLOW_THREADS
            count = MANY_OF[family](plan.buf, table.buf, words.buf, answers.buf, out.buf, undecided.buf, n);
            Py_END_ALLOW_THREADS
        } else {
            PyErr_SetString(PyExc_ValueError, "kernel: arrays of different lengths");
        }
    }
    PyBuffer_Release(&plan);
    PyBuffer_Release(&table);
    PyBuffer_Release(&words);
    PyBuffer_Release(&answers);
    PyBuffer_Release(&out);
    PyBuffer_Release(&undecided);
    return count < 0 ? NULL : PyLong_FromLongLong(count);
}

static PyObject *draw_one(PyObject *self, PyObject *args) {
    int family;
    Py_buffer plan, table;
    unsigned long long word;
    double answer, out = 0.0;
    uint8_t undecided = 1;
    if (!PyArg_ParseTuple(args, "iy*y*Kd", &family, &plan, &table, &word, &answer)) return NULL;
    int good = fits(family, &plan, &table);
    uint64_t bits = word;
    if (good) MANY_OF[family](plan.buf, table.buf, &bits, &answer, &out, &undecided, 1);
    PyBuffer_Release(&plan);
    PyBuffer_Release(&table);
    if (!good) return NULL;
    if (undecided) Py_RETURN_NONE;
    return PyFloat_FromDouble(out);
}

static PyMethodDef methods[] = {
    {"draw", draw, METH_VARARGS, "draw(family, plan, table, words, answers, out, undecided): how many are undecided."},
    {"draw_one", draw_one, METH_VARARGS, "draw_one(family, plan, table, word, answer): the number, or None if undecided."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", "The draw, compiled.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&module); }

/* The draw of one number from noise that is conditioned to an interval, then rounded to the public lattice.

   The method, the meaning of every field and the proof of the margin are in docs/sampling.md; inversion.py is the same
   in NumPy. Nothing here branches, loops or allocates by the location: every choice is between two computed values. */

#include "../kernel.h"

/* Fields of a plan, in the order of plan.py. The last four are constants, but a compiler that knows a bound may turn the
   choice of the smaller number into a jump, so it is not told. */
enum {
    ANSWER_LOWER, ANSWER_UPPER, GIVEN_LOWER, GIVEN_UPPER, LIMIT,
    OUTPUT_LOWER, OUTPUT_UPPER, COLLECTED_LOWER, COLLECTED_UPPER,
    PER_SCALE, SCALE_STEPS, PER_STEP, NUMERATOR, DENOMINATOR, MARGIN, MARGIN_GROWTH,
    FARTHEST_EXPONENT, FARTHEST_TAIL, RARE, ZERO, FIELDS
};
enum { LAPLACE, GAUSSIAN, PLAIN_LAPLACE, PLAIN_GAUSSIAN, FAMILIES };

/* Rows of the table, in the order of tables.py. */
enum { CELLS = 16, TAIL_CELLS = 32, TAIL_END = 12, BINADES = 40 };
enum { POWER_ROW = 0, LOG_ROW = POWER_ROW + CELLS, TAIL_ROW = LOG_ROW + CELLS,
       INVERSE_ROW = TAIL_ROW + TAIL_END * TAIL_CELLS, ROWS = INVERSE_ROW + BINADES * CELLS };

#define PER_LN2 1.4426950408889634
#define LN2 0.6931471805599453

INLINE double smaller(double a, double b) { return a < b ? a : b; }
INLINE double larger(double a, double b) { return a > b ? a : b; }
INLINE double magnitude(double a) { return larger(a, -a); }
INLINE uint64_t bits_of(double a) { uint64_t bits; memcpy(&bits, &a, 8); return bits; }
INLINE double from_bits(uint64_t bits) { double a; memcpy(&a, &bits, 8); return a; }

/* `a` if `yes` is 1, `b` if it is 0, by masks: a jump that follows random bits would be mispredicted half the time. */
INLINE double either(uint64_t yes, double a, double b) {
    uint64_t mask = 0 - yes;
    return from_bits((bits_of(a) & mask) | (bits_of(b) & ~mask));
}

/* `a` with its sign changed if `yes` is 1. */
INLINE double mirrored(uint64_t yes, double a) { return from_bits(bits_of(a) ^ (yes << 63)); }

/* An integer below 2^52 as a double, without the conversion that older processors lack for many at once. */
INLINE double counted(uint64_t k) { return from_bits(k | 0x4330000000000000ULL) - 4503599627370496.0; }

/* The nearest integer, and for sizes of 2^52 and more some integer so near that the rest is exact. */
INLINE double nearest(double x) {
    uint64_t sign = bits_of(x) & 0x8000000000000000ULL;
    double size = (from_bits(bits_of(x) ^ sign) + 4503599627370496.0) - 4503599627370496.0;
    return from_bits(bits_of(size) | sign);
}

/* The polynomial of row `cell` at a place from 0 to 1 inside it. */
INLINE double row(const double *table, int64_t cell, double place) {
    const double *c = table + 8 * cell;
    double t = 2.0 * place - 1.0, t2 = t * t, t4 = t2 * t2;
    return ((c[0] + c[1] * t) + (c[2] + c[3] * t) * t2) + ((c[4] + c[5] * t) + (c[6] + c[7] * t) * t2) * t4;
}

/* w = m 2^-e with m in [1, 2): the leading bits of m choose a cell, the others the place in it. */
INLINE int64_t cell_of(double w) { return (int64_t)((bits_of(w) >> 48) & (CELLS - 1)); }
INLINE double place_of(double w) {
    return (from_bits((bits_of(w) & 0x0000ffffffffffffULL) | 0x3ff0000000000000ULL) - 1.0) * CELLS;
}

INLINE double falling(const double *table, double a, double farthest) { /* e^-a for a >= 0 */
    double x = smaller(a * PER_LN2, farthest);
    int32_t whole = (int32_t)x;
    double f = (x - (double)whole) * CELLS;
    int32_t cell = (int32_t)f;
    double power = from_bits((uint64_t)(1023 - (int64_t)whole) << 52);
    return power * row(table, POWER_ROW + cell, f - (double)cell);
}

INLINE double logarithm(const double *table, double w) {
    double e = 1023.0 - counted(bits_of(w) >> 52);
    return row(table, LOG_ROW + cell_of(w), place_of(w)) - e * LN2;
}

INLINE double tail(const double *table, double z, double farthest) { /* P(Z > z) for z >= 0 */
    double x = smaller(z, farthest) * TAIL_CELLS;
    int32_t cell = (int32_t)x;
    return row(table, TAIL_ROW + cell, x - (double)cell);
}

INLINE double inverse(const double *table, double w) { /* z with P(Z > z) = w <= 1/2 */
    int64_t e = 1023 - (int64_t)(bits_of(w) >> 52);
    e = e < 1 ? 1 : e;
    e = e > BINADES ? BINADES : e;
    return row(table, INVERSE_ROW + (e - 1) * CELLS + cell_of(w), place_of(w));
}

/* The middle of the word's place in (0, 1), with relative precision near 0. */
INLINE double uniform(uint64_t word) {
    return counted(word >> 32) * 0x1p-32 + (counted(word & 0xffffffffULL) + 0.5) * 0x1p-64;
}

/* A block of draws goes through one formula after the other, so that a compiler can do several at once. Its length is a
   constant, filled up where fewer are wanted, so that there is no rest that would be done in another way. */
enum { BLOCK = 128, FEW = 8 };
typedef struct {
    uint64_t words[BLOCK];
    double answers[BLOCK], out[BLOCK];
    double up[BLOCK], down[BLOCK];     /* U and 1 - U */
    double centre[BLOCK], noise[BLOCK]; /* what is drawn: centre + noise, in scales */
    double w[BLOCK], mass[BLOCK];      /* the tail that was inverted, and the mass of all that can be drawn */
    double below[BLOCK], above[BLOCK]; /* the tails beyond either end */
    uint64_t turn[BLOCK];              /* whether the sign of the noise changes */
    uint64_t open[BLOCK];              /* whether the draw is undecided */
} block;

INLINE void begun(block *b, const double *plan, const int n) {
    for (int i = 0; i < n; i++) {
        b->up[i] = uniform(b->words[i]);
        b->down[i] = uniform(~b->words[i]);
        b->centre[i] = smaller(larger(b->answers[i], plan[ANSWER_LOWER]), plan[ANSWER_UPPER]);
    }
}

INLINE void plain(block *b, double whole, uint64_t turned, const int n) {
    for (int i = 0; i < n; i++) {
        b->mass[i] = whole;
        b->w[i] = whole * smaller(b->up[i], b->down[i]);
        b->turn[i] = (uint64_t)(b->up[i] > b->down[i]) ^ turned;
    }
}

INLINE void laplace_tails(block *b, const double *plan, const double *table, const int n) {
    double zero = plan[ZERO];
    for (int i = 0; i < n; i++) {
        double q = b->centre[i], centre = smaller(larger(q, plan[GIVEN_LOWER]), plan[GIVEN_UPPER]);
        double reach = larger(plan[LIMIT] - magnitude(q - centre), zero);
        b->centre[i] = centre;
        b->below[i] = smaller(centre - plan[GIVEN_LOWER], reach) * plan[PER_SCALE];
        b->above[i] = smaller(plan[GIVEN_UPPER] - centre, reach) * plan[PER_SCALE];
    }
    for (int i = 0; i < n; i++) b->below[i] = falling(table, b->below[i], plan[FARTHEST_EXPONENT]);
    for (int i = 0; i < n; i++) b->above[i] = falling(table, b->above[i], plan[FARTHEST_EXPONENT]);
    for (int i = 0; i < n; i++) {
        double below = b->below[i], above = b->above[i], mass = (1.0 - below) + (1.0 - above);
        uint64_t left = b->up[i] * mass < 1.0 - below;
        b->mass[i] = mass;
        b->w[i] = either(left, below, above) + either(left, b->up[i], b->down[i]) * mass;
        b->turn[i] = left ^ 1;
    }
}

INLINE void gaussian_tails(block *b, const double *plan, const double *table, const int n) {
    for (int i = 0; i < n; i++) {
        b->below[i] = (b->centre[i] - plan[GIVEN_LOWER]) * plan[PER_SCALE];
        b->above[i] = (plan[GIVEN_UPPER] - b->centre[i]) * plan[PER_SCALE];
        b->turn[i] = b->below[i] < b->above[i];
    }
    for (int i = 0; i < n; i++) b->w[i] = tail(table, larger(b->below[i], b->above[i]), plan[FARTHEST_TAIL]);
    for (int i = 0; i < n; i++)
        b->mass[i] = tail(table, magnitude(smaller(b->below[i], b->above[i])), plan[FARTHEST_TAIL]);
    for (int i = 0; i < n; i++) {
        double far = b->w[i], near = b->mass[i]; /* beyond the end that is farther, and beyond the nearer one */
        uint64_t flip = b->turn[i], astride = smaller(b->below[i], b->above[i]) > 0.0;
        double mass = either(astride, 1.0 - near, near) - far;
        double first = far + either(flip, b->down[i], b->up[i]) * mass;
        double second = either(astride, near, 1.0 - near) + either(flip, b->up[i], b->down[i]) * mass;
        b->mass[i] = mass;
        b->w[i] = smaller(first, second);
        b->turn[i] = flip ^ (uint64_t)(first < second);
    }
}

INLINE void rounded(block *b, const double *plan, const int n) {
    for (int i = 0; i < n; i++) {
        double noise = mirrored(b->turn[i], b->noise[i]) * plan[SCALE_STEPS];
        double place = b->centre[i] * plan[PER_STEP];
        double whole = nearest(place);
        double offset = (place - whole) + noise;
        double steps = nearest(offset);
        double value = (whole + steps) * plan[NUMERATOR] / plan[DENOMINATOR] + 0.0; /* no zero with a sign */
        value = smaller(larger(value, plan[OUTPUT_LOWER]), plan[OUTPUT_UPPER]);
        /* What falls beyond an end belongs to the end, even if the nearest multiple lies inside. */
        double under = offset - (plan[COLLECTED_LOWER] - whole);
        double over = (plan[COLLECTED_UPPER] - whole) - offset;
        value = either(under < 0.0, plan[OUTPUT_LOWER], value);
        b->out[i] = either(over < 0.0, plan[OUTPUT_UPPER], value);
        double margin = plan[MARGIN] + plan[MARGIN_GROWTH] * (magnitude(place) + magnitude(noise));
        uint64_t sure = magnitude(offset - steps) < 0.5 - margin; /* what is NaN is not sure */
        sure &= (uint64_t)(magnitude(under) > margin) & (uint64_t)(magnitude(over) > margin);
        b->open[i] = 1 ^ (sure & (uint64_t)(b->w[i] >= b->mass[i] * plan[RARE]));
    }
}

/* Through a pointer that a compiler must read, so that it cannot leave the erasing out. */
static void *(*const volatile erase)(void *, int, size_t) = memset;

INLINE int64_t drawn(int family, const double *plan, const double *table, const uint64_t *words, const double *answers,
                     double *out, uint8_t *undecided, int64_t count, const int n) {
    int64_t total = 0;
    block b;
    memset(&b, 0, sizeof b);
    for (int64_t start = 0; start < count; start += n) {
        size_t size = (size_t)(count - start < n ? count - start : n);
        memcpy(b.words, words + start, size * 8);
        memcpy(b.answers, answers + start, size * 8);
        begun(&b, plan, n);
        if (family == PLAIN_LAPLACE) plain(&b, 2.0, 0, n);
        if (family == PLAIN_GAUSSIAN) plain(&b, 1.0, 1, n);
        if (family == LAPLACE) laplace_tails(&b, plan, table, n);
        if (family == GAUSSIAN) gaussian_tails(&b, plan, table, n);
        if (family == LAPLACE || family == PLAIN_LAPLACE)
            for (int i = 0; i < n; i++) b.noise[i] = logarithm(table, b.w[i]);
        else
            for (int i = 0; i < n; i++) b.noise[i] = inverse(table, b.w[i]);
        rounded(&b, plan, n);
        memcpy(out + start, b.out, size * 8);
        for (size_t i = 0; i < size; i++) {
            undecided[start + (int64_t)i] = (uint8_t)b.open[i];
            total += (int64_t)b.open[i];
        }
    }
    erase(&b, 0, sizeof b); /* the random numbers are used up */
    return total;
}

#define FAMILY_OF(NAME, FAMILY, LENGTH)                                                                                \
    TUNED static int64_t NAME(const double *plan, const double *table, const uint64_t *words, const double *answers,   \
                              double *out, uint8_t *undecided, int64_t count) {                                        \
        return drawn(FAMILY, plan, table, words, answers, out, undecided, count, LENGTH);                              \
    }
FAMILY_OF(many_laplace, LAPLACE, BLOCK)
FAMILY_OF(many_gaussian, GAUSSIAN, BLOCK)
FAMILY_OF(many_plain_laplace, PLAIN_LAPLACE, BLOCK)
FAMILY_OF(many_plain_gaussian, PLAIN_GAUSSIAN, BLOCK)
FAMILY_OF(few_laplace, LAPLACE, FEW)
FAMILY_OF(few_gaussian, GAUSSIAN, FEW)
FAMILY_OF(few_plain_laplace, PLAIN_LAPLACE, FEW)
FAMILY_OF(few_plain_gaussian, PLAIN_GAUSSIAN, FEW)

typedef int64_t (*draws)(const double *, const double *, const uint64_t *, const double *, double *, uint8_t *, int64_t);
static const draws MANY_OF[FAMILIES] = {many_laplace, many_gaussian, many_plain_laplace, many_plain_gaussian};
static const draws FEW_OF[FAMILIES] = {few_laplace, few_gaussian, few_plain_laplace, few_plain_gaussian};

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
    if (good) FEW_OF[family](plan.buf, table.buf, &bits, &answer, &out, &undecided, 1);
    PyBuffer_Release(&plan);
    PyBuffer_Release(&table);
    if (!good) return NULL;
    if (undecided) Py_RETURN_NONE;
    return PyFloat_FromDouble(out);
}

/* Tables of whole-number weights: alias_table.py is the same in NumPy. The row of an answer is the number of thresholds
   that are not above it, by halving: as many steps for every answer. What fills the thresholds up is NaN, below nothing. */
typedef struct {
    const double *thresholds, *outputs;
    const uint64_t *entries;
    int64_t rows;
    int levels, bits; /* 2^levels - 1 thresholds, 2^bits slots and outputs */
} table;

INLINE void drawn_from_table(table t, const uint64_t *words, const double *answers, double *out, int64_t count, const int n) {
    int64_t row[BLOCK];
    uint64_t cut_mask = (1ULL << (63 - t.bits)) - 1, slot_mask = (1ULL << t.bits) - 1, unit_mask = (1ULL << (62 - t.bits)) - 1;
    for (int64_t start = 0; start < count; start += n) {
        int size = (int)(count - start < n ? count - start : n);
        const uint64_t *word = words + start;
        const double *answer = answers + start;
        for (int i = 0; i < size; i++) row[i] = 0;
        for (int level = t.levels - 1; level >= 0; level--) {
            const double *middle = t.thresholds + ((1LL << level) - 1);
            for (int i = 0; i < size; i++) row[i] += (int64_t)(middle[row[i]] <= answer[i]) << level;
        }
        for (int i = 0; i < size; i++) row[i] = row[i] < t.rows ? row[i] : t.rows - 1;
        for (int i = 0; i < size; i++) {
            uint64_t place = word[i] >> 2, slot = place >> (62 - t.bits);
            uint64_t entry = t.entries[((uint64_t)row[i] << t.bits) + slot];
            uint64_t own = 0 - (uint64_t)((place & unit_mask) < (entry & cut_mask));
            out[start + i] = t.outputs[(slot & own) | ((entry >> (63 - t.bits)) & slot_mask & ~own)];
        }
    }
}

TUNED static void many_from_table(table t, const uint64_t *words, const double *answers, double *out, int64_t count) {
    drawn_from_table(t, words, answers, out, count, BLOCK);
}

static int is_power(int64_t n) { return n > 0 && !(n & (n - 1)); }

static int table_fits(table *t, const Py_buffer *thresholds, const Py_buffer *entries, const Py_buffer *outputs) {
    int64_t above = thresholds->len / 8 + 1, slots = outputs->len / 8, all = entries->len / 8;
    *t = (table){thresholds->buf, outputs->buf, entries->buf, 0, 0, 0};
    if (is_power(above) && is_power(slots) && slots <= (1LL << 40) && all > 0 && all % slots == 0 && all / slots <= above) {
        t->rows = all / slots;
        while ((1LL << t->levels) < above) t->levels++;
        while ((1LL << t->bits) < slots) t->bits++;
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "kernel: thresholds, entries or outputs of the wrong size");
    return 0;
}

static PyObject *draw_table(PyObject *self, PyObject *args) {
    Py_buffer thresholds, entries, outputs, words, answers, out;
    table t;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*w*", &thresholds, &entries, &outputs, &words, &answers, &out)) return NULL;
    int good = table_fits(&t, &thresholds, &entries, &outputs);
    if (good && (words.len != out.len || answers.len != out.len || out.len % 8)) {
        PyErr_SetString(PyExc_ValueError, "kernel: arrays of different lengths");
        good = 0;
    }
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        many_from_table(t, words.buf, answers.buf, out.buf, out.len / 8);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&entries);
    PyBuffer_Release(&outputs);
    PyBuffer_Release(&words);
    PyBuffer_Release(&answers);
    PyBuffer_Release(&out);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

static PyObject *draw_table_one(PyObject *self, PyObject *args) {
    Py_buffer thresholds, entries, outputs;
    table t;
    unsigned long long word;
    double answer, out = 0.0;
    if (!PyArg_ParseTuple(args, "y*y*y*Kd", &thresholds, &entries, &outputs, &word, &answer)) return NULL;
    int good = table_fits(&t, &thresholds, &entries, &outputs);
    uint64_t bits = word;
    if (good) drawn_from_table(t, &bits, &answer, &out, 1, 1);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&entries);
    PyBuffer_Release(&outputs);
    return good ? PyFloat_FromDouble(out) : NULL;
}

static PyMethodDef methods[] = {
    {"draw", draw, METH_VARARGS, "draw(family, plan, table, words, answers, out, undecided): how many are undecided."},
    {"draw_one", draw_one, METH_VARARGS, "draw_one(family, plan, table, word, answer): the number, or None if undecided."},
    {"draw_table", draw_table, METH_VARARGS, "draw_table(thresholds, entries, outputs, words, answers, out)."},
    {"draw_table_one", draw_table_one, METH_VARARGS, "draw_table_one(thresholds, entries, outputs, word, answer): the number."},
    {NULL, NULL, 0, NULL}};

/* Counts up with what the functions here take and give, so that a kernel compiled for another version is recognised.
   1, which is not written down: draw, draw_one. 2: draw_table, draw_table_one. */
enum { API = 2 };

static int filled(PyObject *made) { return PyModule_AddIntConstant(made, "API", API); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)filled}, WITHOUT_GIL {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", "The draw, compiled.", 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module); }

/* Sums over examples: squared norms and weighted sums in doubles, and clamped outer products in whole numbers.

   These are (o, i) the sum over b of round(clamp(g[b,o] * a[b,i])). The gradients of a linear layer are such products, one for each example; here none of them is ever stored. Whole
   numbers make the sum exact, so it does not depend on the order of the examples, on blocks, threads or processes. */

#include "../kernel.h"

/* Columns whose sums stay in registers, examples whose numbers stay in the first cache, outputs in a line of it. */
enum { WIDE = 48, ROWS = 192, OUTPUTS = 16 };

/* Adding this rounds a float below 2^22 in size to a whole number, which then stands in the low bits of its pattern. */
#define SHIFT 12582912.0f
#define SHIFT_BITS 0x4B400000u

/* The second where the first is not a number: one instruction in either form, but not in the other one's place. */
#ifdef __aarch64__
#define LARGER(x, y) __builtin_fmaxf(x, y)
#define SMALLER(x, y) __builtin_fminf(x, y)
#else
#define LARGER(x, y) ((x) > (y) ? (x) : (y))
#define SMALLER(x, y) ((x) < (y) ? (x) : (y))
#endif

INLINE void add_row(uint32_t *sums, const float *row, float factor, float limit) {
    float low = -limit, high = limit;
    for (int i = 0; i < WIDE; i++) {
        float x = factor * row[i];
        x = LARGER(x, low); /* what is not a number becomes the lower limit, so that the bound always holds */
        x = SMALLER(x, high);
        x += SHIFT;
        uint32_t bits;
        memcpy(&bits, &x, 4);
        sums[i] += bits;
    }
}

/* The factors are copied first: rows that are a multiple of 4 kB apart would drive each other out of the cache. */
TUNED static void tile(const float *a, const float *g, double *out, int64_t rows, int64_t columns, int64_t outputs,
                       int64_t wide, float limit) {
    float inputs[ROWS * WIDE], slopes[OUTPUTS * ROWS];
    if (wide < WIDE) memset(inputs, 0, sizeof inputs);
    for (int64_t b = 0; b < rows; b++) memcpy(inputs + b * WIDE, a + b * columns, (size_t)wide * 4);
    for (int64_t first = 0; first < outputs; first += OUTPUTS) {
        int64_t many = outputs - first < OUTPUTS ? outputs - first : OUTPUTS;
        for (int64_t b = 0; b < rows; b++)
            for (int64_t o = 0; o < many; o++) slopes[o * ROWS + b] = g[b * outputs + first + o];
        for (int64_t o = 0; o < many; o++) {
            uint32_t sums[WIDE];
            memset(sums, 0, sizeof sums);
            for (int64_t b = 0; b < rows; b++) add_row(sums, inputs + b * WIDE, slopes[o * ROWS + b], limit);
            double *to = out + (first + o) * columns;
            for (int64_t i = 0; i < wide; i++) to[i] += (double)(int32_t)(sums[i] - (uint32_t)rows * SHIFT_BITS);
        }
    }
}

/* clamped(a, g, out, rows, columns, outputs, limit, first, last): columns first to last of out, which they add to. */
static PyObject *clamped(PyObject *self, PyObject *args) {
    Py_buffer a, g, out;
    long long rows, columns, outputs, first, last;
    float limit;
    if (!PyArg_ParseTuple(args, "y*y*w*LLLfLL", &a, &g, &out, &rows, &columns, &outputs, &limit, &first, &last)) return NULL;
    int good = rows >= 0 && columns >= 0 && outputs >= 0 && a.len == 4 * rows * columns && g.len == 4 * rows * outputs &&
               out.len == 8 * outputs * columns && 0 <= first && first <= last && last <= columns && limit > 0.0f &&
               limit < 4194304.0f;
    if (good) {
        const float *av = a.buf, *gv = g.buf;
        double *ov = out.buf;
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = first; i < last; i += WIDE) {
            int64_t wide = last - i < WIDE ? last - i : WIDE;
            for (int64_t b = 0; b < rows; b += ROWS) {
                int64_t many = rows - b < ROWS ? rows - b : ROWS;
                tile(av + b * columns + i, gv + b * outputs, ov + i, many, columns, outputs, wide, limit);
            }
        }
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "kernel: arrays and sizes do not fit together");
    }
    PyBuffer_Release(&a);
    PyBuffer_Release(&g);
    PyBuffer_Release(&out);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

/* Norms and weighted sums of rows of floats, in doubles, of which none is stored. */
enum { LANES = 32, STRETCH = 4096, COLUMNS = 512 };

/* The sum of the squares of a row: in lanes, and by stretches, so that few roundings follow each other. */
TUNED static double square_of(const float *row, int64_t wide) {
    double total = 0.0;
    for (int64_t start = 0; start < wide; start += STRETCH) {
        int64_t end = wide - start < STRETCH ? wide : start + STRETCH, i = start;
        double lanes[LANES] = {0.0}, part = 0.0;
        for (; i + LANES <= end; i += LANES)
            for (int k = 0; k < LANES; k++) lanes[k] += (double)row[i + k] * (double)row[i + k];
        for (; i < end; i++) lanes[i % LANES] += (double)row[i] * (double)row[i];
        for (int k = 0; k < LANES; k++) part += lanes[k];
        total += part;
    }
    return total;
}

/* Columns first to last of the sum of the rows times their weights, which are added to `to`. */
TUNED static void add_weighted(const float *rows, const double *weights, double *to, int64_t count, int64_t wide,
                               int64_t first, int64_t last) {
    for (int64_t start = first; start < last; start += COLUMNS) {
        int64_t many = last - start < COLUMNS ? last - start : COLUMNS;
        double sums[COLUMNS];
        memset(sums, 0, sizeof sums);
        for (int64_t b = 0; b < count; b++) {
            const float *row = rows + b * wide + start;
            for (int64_t i = 0; i < many; i++) sums[i] += weights[b] * (double)row[i];
        }
        for (int64_t i = 0; i < many; i++) to[start + i] += sums[i];
    }
}

/* squares(rows, out, first, last): the sums of squares of rows first to last, in as many rows as `out` has places. */
static PyObject *squares(PyObject *self, PyObject *args) {
    Py_buffer rows, out;
    long long first, last;
    if (!PyArg_ParseTuple(args, "y*w*LL", &rows, &out, &first, &last)) return NULL;
    int64_t count = out.len / 8, wide = count ? rows.len / 4 / count : 0;
    int good = rows.len == 4 * wide * count && 0 <= first && first <= last && last <= count;
    if (good) {
        const float *from = rows.buf;
        double *to = out.buf;
        Py_BEGIN_ALLOW_THREADS
        for (int64_t b = first; b < last; b++) to[b] = square_of(from + b * wide, wide);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "kernel: arrays and sizes do not fit together");
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&out);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

/* weighted(rows, weights, out, first, last): columns first to last of out, which they add to. */
static PyObject *weighted(PyObject *self, PyObject *args) {
    Py_buffer rows, weights, out;
    long long first, last;
    if (!PyArg_ParseTuple(args, "y*y*w*LL", &rows, &weights, &out, &first, &last)) return NULL;
    int64_t count = weights.len / 8, wide = out.len / 8;
    int good = weights.len % 8 == 0 && out.len % 8 == 0 && rows.len == 4 * wide * count && 0 <= first && first <= last &&
               last <= wide;
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        add_weighted(rows.buf, weights.buf, out.buf, count, wide, first, last);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "kernel: arrays and sizes do not fit together");
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&weights);
    PyBuffer_Release(&out);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"squares", squares, METH_VARARGS, "squares(rows, out, first, last): the sum of the squares of each row."},
    {"weighted", weighted, METH_VARARGS, "weighted(rows, weights, out, first, last): add to out."},
    {"clamped", clamped, METH_VARARGS, "clamped(a, g, out, rows, columns, outputs, limit, first, last): add to out."},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {WITHOUT_GIL {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", "Sums over examples.", 0, methods, slots,
                                    NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module); }

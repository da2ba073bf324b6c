// SPDX-License-Identifier: Apache-2.0
/* kernels.c -- each kernel three times: as PTX for a GPU, as its C twin for the simulated driver,
 * and as the function that launches it.
 *
 * PTX is the text form of GPU code that the driver compiles for the GPU it finds, so no CUDA
 * compiler is needed. Each kernel is a module of its own. mul and add name their rounding (.rn), so
 * that a multiplication and an addition are never fused into one; the twins are compiled in the
 * same way, and give the same bits.
 *
 * The twins follow device addresses as they are: in the simulated driver these are addresses of
 * the process. */
#include "common/kernels.h"

#include "common/driver.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* GCC never fuses in its ISO C modes, and does not know the pragma */
#endif

/* A kernel: its signature; the instructions that set %n, the number of threads with something to
 * do; the instructions for thread %i. Threads from %n on leave: a grid is a whole number of blocks.
 * The registers are declared once for all kernels. */
#define PTX(signature, count, body)                                                                \
    ".version 7.0\n"                                                                               \
    ".target sm_70\n"                                                                              \
    ".address_size 64\n"                                                                           \
    ".visible .entry " signature "\n"                                                              \
    "{\n"                                                                                          \
    "    .reg .pred %p;\n"                                                                         \
    "    .reg .b32 %i, %n, %t, %u, %k, %r, %c;\n"                                                  \
    "    .reg .f32 %x, %y, %z;\n"                                                                  \
    "    .reg .b64 %a, %b, %d, %s, %v;\n" count "    mov.u32 %t, %ctaid.x;\n"                      \
    "    mov.u32 %u, %ntid.x;\n"                                                                   \
    "    mov.u32 %i, %tid.x;\n"                                                                    \
    "    mad.lo.u32 %i, %t, %u, %i;\n"                                                             \
    "    setp.ge.u32 %p, %i, %n;\n"                                                                \
    "    @%p ret;\n" body "    ret;\n"                                                             \
    "}\n"

/* The twin's view of a parameter, and how many of count elements the launch has threads for: a grid
 * that is too small leaves the rest undone, as on a GPU. */
#define PARAM(type, index) (*(type *)params[index])

static size_t covered(const tarn_sim_launch *launch, size_t count)
{
    size_t threads = (size_t)launch->grid[0] * launch->block[0];
    return threads < count ? threads : count;
}

/* ---- fill ---------------------------------------------------------------------------------- */

static const char fill_ptx[] = PTX("fill(.param .u64 out, .param .f32 value, .param .u32 count)",
                                   "    ld.param.u32 %n, [count];\n",
                                   "    ld.param.u64 %d, [out];\n"
                                   "    ld.param.f32 %x, [value];\n"
                                   "    mad.wide.u32 %d, %i, 4, %d;\n" /* the address of out[i] */
                                   "    st.global.f32 [%d], %x;\n");

static void fill_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *out = PARAM(float *, 0);
    float value = PARAM(float, 1);
    size_t count = covered(launch, PARAM(uint32_t, 2));
    for (size_t i = 0; i < count; i++) {
        out[i] = value;
    }
}

/* ---- scale --------------------------------------------------------------------------------- */

static const char scale_ptx[] = PTX("scale(.param .u64 out, .param .u64 in, .param .f32 factor,\n"
                                    "    .param .u32 count)",
                                    "    ld.param.u32 %n, [count];\n",
                                    "    ld.param.u64 %d, [out];\n"
                                    "    ld.param.u64 %a, [in];\n"
                                    "    ld.param.f32 %x, [factor];\n"
                                    "    mad.wide.u32 %d, %i, 4, %d;\n"
                                    "    mad.wide.u32 %a, %i, 4, %a;\n"
                                    "    ld.global.f32 %y, [%a];\n"
                                    "    mul.rn.f32 %y, %x, %y;\n"
                                    "    st.global.f32 [%d], %y;\n");

static void scale_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *out = PARAM(float *, 0);
    const float *in = PARAM(const float *, 1);
    float factor = PARAM(float, 2);
    size_t count = covered(launch, PARAM(uint32_t, 3));
    for (size_t i = 0; i < count; i++) {
        out[i] = factor * in[i];
    }
}

/* ---- add ----------------------------------------------------------------------------------- */

static const char add_ptx[] = PTX("add(.param .u64 out, .param .u64 left, .param .u64 right,\n"
                                  "    .param .u32 count)",
                                  "    ld.param.u32 %n, [count];\n",
                                  "    ld.param.u64 %d, [out];\n"
                                  "    ld.param.u64 %a, [left];\n"
                                  "    ld.param.u64 %b, [right];\n"
                                  "    mad.wide.u32 %d, %i, 4, %d;\n"
                                  "    mad.wide.u32 %a, %i, 4, %a;\n"
                                  "    mad.wide.u32 %b, %i, 4, %b;\n"
                                  "    ld.global.f32 %x, [%a];\n"
                                  "    ld.global.f32 %y, [%b];\n"
                                  "    add.rn.f32 %x, %x, %y;\n"
                                  "    st.global.f32 [%d], %x;\n");

static void add_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *out = PARAM(float *, 0);
    const float *left = PARAM(const float *, 1);
    const float *right = PARAM(const float *, 2);
    size_t count = covered(launch, PARAM(uint32_t, 3));
    for (size_t i = 0; i < count; i++) {
        out[i] = left[i] + right[i];
    }
}

/* ---- axpy ---------------------------------------------------------------------------------- */

static const char axpy_ptx[] = PTX("axpy(.param .u64 y, .param .u64 x, .param .f32 factor,\n"
                                   "    .param .u32 count)",
                                   "    ld.param.u32 %n, [count];\n",
                                   "    ld.param.u64 %d, [y];\n"
                                   "    ld.param.u64 %a, [x];\n"
                                   "    ld.param.f32 %x, [factor];\n"
                                   "    mad.wide.u32 %d, %i, 4, %d;\n"
                                   "    mad.wide.u32 %a, %i, 4, %a;\n"
                                   "    ld.global.f32 %y, [%a];\n"
                                   "    ld.global.f32 %z, [%d];\n"
                                   "    mul.rn.f32 %y, %x, %y;\n"
                                   "    add.rn.f32 %z, %z, %y;\n"
                                   "    st.global.f32 [%d], %z;\n");

static void axpy_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *y = PARAM(float *, 0);
    const float *x = PARAM(const float *, 1);
    float factor = PARAM(float, 2);
    size_t count = covered(launch, PARAM(uint32_t, 3));
    for (size_t i = 0; i < count; i++) {
        y[i] = y[i] + factor * x[i];
    }
}

/* ---- mark_nan ------------------------------------------------------------------------------ */

static const char mark_nan_ptx[] =
    PTX("mark_nan(.param .u64 out, .param .u64 in, .param .u32 count)",
        "    ld.param.u32 %n, [count];\n",
        "    ld.param.u64 %d, [out];\n"
        "    ld.param.u64 %a, [in];\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    mad.wide.u32 %a, %i, 4, %a;\n"
        "    ld.global.f32 %x, [%a];\n"
        "    setp.nan.f32 %p, %x, %x;\n"
        "    selp.f32 %x, 0f3F800000, 0f00000000, %p;\n" /* 1 or 0 */
        "    st.global.f32 [%d], %x;\n");

static void mark_nan_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *out = PARAM(float *, 0);
    const float *in = PARAM(const float *, 1);
    size_t count = covered(launch, PARAM(uint32_t, 2));
    for (size_t i = 0; i < count; i++) {
        out[i] = in[i] != in[i] ? 1.0F : 0.0F;
    }
}

/* ---- matmul -------------------------------------------------------------------------------- */

/* One kernel serves all three forms: only the steps from element to element differ.
 * left[r][k] is at left + r * left_row + k * left_inner, right[k][c] at right + k * right_inner +
 * c * right_column, all counted in floats. */
static const char matmul_ptx[] =
    PTX("matmul(.param .u64 out, .param .u64 left, .param .u64 right,\n"
        "    .param .u32 rows, .param .u32 inner, .param .u32 columns,\n"
        "    .param .u32 left_row, .param .u32 left_inner,\n"
        "    .param .u32 right_inner, .param .u32 right_column)",
        "    ld.param.u32 %n, [rows];\n"
        "    ld.param.u32 %c, [columns];\n"
        "    mul.lo.u32 %n, %n, %c;\n",
        "    div.u32 %r, %i, %c;\n" /* the row and column of out[i] */
        "    rem.u32 %c, %i, %c;\n"
        "    ld.param.u64 %a, [left];\n"
        "    ld.param.u32 %t, [left_row];\n"
        "    mul.lo.u32 %t, %r, %t;\n"
        "    mad.wide.u32 %a, %t, 4, %a;\n" /* left[r][0] */
        "    ld.param.u64 %b, [right];\n"
        "    ld.param.u32 %t, [right_column];\n"
        "    mul.lo.u32 %t, %c, %t;\n"
        "    mad.wide.u32 %b, %t, 4, %b;\n" /* right[0][c] */
        "    ld.param.u32 %t, [left_inner];\n"
        "    mul.wide.u32 %s, %t, 4;\n" /* the steps along k, in bytes */
        "    ld.param.u32 %t, [right_inner];\n"
        "    mul.wide.u32 %v, %t, 4;\n"
        "    mov.f32 %z, 0f00000000;\n"
        "    ld.param.u32 %k, [inner];\n"
        "next:\n"
        "    setp.eq.u32 %p, %k, 0;\n"
        "    @%p bra done;\n"
        "    ld.global.f32 %x, [%a];\n"
        "    ld.global.f32 %y, [%b];\n"
        "    mul.rn.f32 %x, %x, %y;\n"
        "    add.rn.f32 %z, %z, %x;\n"
        "    add.u64 %a, %a, %s;\n"
        "    add.u64 %b, %b, %v;\n"
        "    sub.u32 %k, %k, 1;\n"
        "    bra next;\n"
        "done:\n"
        "    ld.param.u64 %d, [out];\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    st.global.f32 [%d], %z;\n");

static void matmul_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *out = PARAM(float *, 0);
    const float *left = PARAM(const float *, 1);
    const float *right = PARAM(const float *, 2);
    size_t rows = PARAM(uint32_t, 3);
    size_t inner = PARAM(uint32_t, 4);
    size_t columns = PARAM(uint32_t, 5);
    size_t left_row = PARAM(uint32_t, 6);
    size_t left_inner = PARAM(uint32_t, 7);
    size_t right_inner = PARAM(uint32_t, 8);
    size_t right_column = PARAM(uint32_t, 9);
    size_t count = covered(launch, rows * columns);
    for (size_t i = 0; i < count; i++) {
        const float *a = left + i / columns * left_row;
        const float *b = right + i % columns * right_column;
        float sum = 0.0F;
        for (size_t k = 0; k < inner; k++) {
            sum += a[k * left_inner] * b[k * right_inner];
        }
        out[i] = sum;
    }
}

/* ---- add_row ------------------------------------------------------------------------------- */

static const char add_row_ptx[] =
    PTX("add_row(.param .u64 matrix, .param .u64 row, .param .u32 count,\n"
        "    .param .u32 columns)",
        "    ld.param.u32 %n, [count];\n",
        "    ld.param.u64 %d, [matrix];\n"
        "    ld.param.u64 %a, [row];\n"
        "    ld.param.u32 %c, [columns];\n"
        "    rem.u32 %c, %i, %c;\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    mad.wide.u32 %a, %c, 4, %a;\n"
        "    ld.global.f32 %x, [%d];\n"
        "    ld.global.f32 %y, [%a];\n"
        "    add.rn.f32 %x, %x, %y;\n"
        "    st.global.f32 [%d], %x;\n");

static void add_row_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *matrix = PARAM(float *, 0);
    const float *row = PARAM(const float *, 1);
    size_t count = covered(launch, PARAM(uint32_t, 2));
    size_t columns = PARAM(uint32_t, 3);
    for (size_t i = 0; i < count; i++) {
        matrix[i] = matrix[i] + row[i % columns];
    }
}

/* ---- sum_rows ------------------------------------------------------------------------------ */

/* One thread for each column: slow for a tall matrix, and always the same order. */
static const char sum_rows_ptx[] =
    PTX("sum_rows(.param .u64 out, .param .u64 matrix, .param .u32 rows,\n"
        "    .param .u32 columns)",
        "    ld.param.u32 %n, [columns];\n",
        "    ld.param.u64 %d, [out];\n"
        "    ld.param.u64 %a, [matrix];\n"
        "    ld.param.u32 %k, [rows];\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    mad.wide.u32 %a, %i, 4, %a;\n" /* the top of column i */
        "    mul.wide.u32 %s, %n, 4;\n"     /* a row in bytes */
        "    mov.f32 %z, 0f00000000;\n"
        "next:\n"
        "    setp.eq.u32 %p, %k, 0;\n"
        "    @%p bra done;\n"
        "    ld.global.f32 %x, [%a];\n"
        "    add.rn.f32 %z, %z, %x;\n"
        "    add.u64 %a, %a, %s;\n"
        "    sub.u32 %k, %k, 1;\n"
        "    bra next;\n"
        "done:\n"
        "    st.global.f32 [%d], %z;\n");

static void sum_rows_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *out = PARAM(float *, 0);
    const float *matrix = PARAM(const float *, 1);
    size_t rows = PARAM(uint32_t, 2);
    size_t columns = PARAM(uint32_t, 3);
    size_t count = covered(launch, columns);
    for (size_t i = 0; i < count; i++) {
        float sum = 0.0F;
        for (size_t row = 0; row < rows; row++) {
            sum += matrix[row * columns + i];
        }
        out[i] = sum;
    }
}

/* ---- relu ---------------------------------------------------------------------------------- */

/* PTX's max would turn NaN into 0; an ordered comparison is false for NaN and lets it through. */
static const char relu_ptx[] =
    PTX("relu(.param .u64 values, .param .u32 count)", "    ld.param.u32 %n, [count];\n",
        "    ld.param.u64 %d, [values];\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    ld.global.f32 %x, [%d];\n"
        "    setp.le.f32 %p, %x, 0f00000000;\n"
        "    selp.f32 %x, 0f00000000, %x, %p;\n"
        "    st.global.f32 [%d], %x;\n");

static void relu_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *values = PARAM(float *, 0);
    size_t count = covered(launch, PARAM(uint32_t, 1));
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] <= 0.0F ? 0.0F : values[i];
    }
}

/* ---- relu_backward ------------------------------------------------------------------------- */

static const char relu_backward_ptx[] =
    PTX("relu_backward(.param .u64 gradient, .param .u64 activation,\n"
        "    .param .u32 count)",
        "    ld.param.u32 %n, [count];\n",
        "    ld.param.u64 %d, [gradient];\n"
        "    ld.param.u64 %a, [activation];\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    mad.wide.u32 %a, %i, 4, %a;\n"
        "    ld.global.f32 %x, [%d];\n"
        "    ld.global.f32 %y, [%a];\n"
        "    setp.le.f32 %p, %y, 0f00000000;\n"
        "    selp.f32 %x, 0f00000000, %x, %p;\n"
        "    st.global.f32 [%d], %x;\n");

static void relu_backward_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *gradient = PARAM(float *, 0);
    const float *activation = PARAM(const float *, 1);
    size_t count = covered(launch, PARAM(uint32_t, 2));
    for (size_t i = 0; i < count; i++) {
        gradient[i] = activation[i] <= 0.0F ? 0.0F : gradient[i];
    }
}

/* ---- mse ----------------------------------------------------------------------------------- */

/* One thread adds everything up, from the first element to the last. */
static const char mse_ptx[] =
    PTX("mse(.param .u64 loss, .param .u64 prediction, .param .u64 target,\n"
        "    .param .f32 weight, .param .u32 count)",
        "    mov.u32 %n, 1;\n",
        "    ld.param.u64 %a, [prediction];\n"
        "    ld.param.u64 %b, [target];\n"
        "    ld.param.u32 %k, [count];\n"
        "    mov.f32 %z, 0f00000000;\n"
        "next:\n"
        "    setp.eq.u32 %p, %k, 0;\n"
        "    @%p bra done;\n"
        "    ld.global.f32 %x, [%a];\n"
        "    ld.global.f32 %y, [%b];\n"
        "    sub.rn.f32 %x, %x, %y;\n"
        "    mul.rn.f32 %x, %x, %x;\n"
        "    add.rn.f32 %z, %z, %x;\n"
        "    add.u64 %a, %a, 4;\n"
        "    add.u64 %b, %b, 4;\n"
        "    sub.u32 %k, %k, 1;\n"
        "    bra next;\n"
        "done:\n"
        "    ld.param.f32 %x, [weight];\n"
        "    mul.rn.f32 %z, %z, %x;\n"
        "    ld.param.u64 %d, [loss];\n"
        "    st.global.f32 [%d], %z;\n");

static void mse_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    float *loss = PARAM(float *, 0);
    const float *prediction = PARAM(const float *, 1);
    const float *target = PARAM(const float *, 2);
    float weight = PARAM(float, 3);
    size_t count = PARAM(uint32_t, 4);
    float sum = 0.0F;
    for (size_t i = 0; i < count; i++) {
        float difference = prediction[i] - target[i];
        sum += difference * difference;
    }
    *loss = sum * weight;
}

/* ---- mse_backward -------------------------------------------------------------------------- */

static const char mse_backward_ptx[] =
    PTX("mse_backward(.param .u64 gradient, .param .u64 prediction,\n"
        "    .param .u64 target, .param .f32 weight,\n"
        "    .param .u32 count)",
        "    ld.param.u32 %n, [count];\n",
        "    ld.param.u64 %d, [gradient];\n"
        "    ld.param.u64 %a, [prediction];\n"
        "    ld.param.u64 %b, [target];\n"
        "    ld.param.f32 %z, [weight];\n"
        "    mad.wide.u32 %d, %i, 4, %d;\n"
        "    mad.wide.u32 %a, %i, 4, %a;\n"
        "    mad.wide.u32 %b, %i, 4, %b;\n"
        "    ld.global.f32 %x, [%a];\n"
        "    ld.global.f32 %y, [%b];\n"
        "    sub.rn.f32 %x, %x, %y;\n"
        "    mul.rn.f32 %x, %x, %z;\n"
        "    st.global.f32 [%d], %x;\n");

static void mse_backward_twin(const tarn_sim_launch *launch, void *const *params)
{
    float *gradient = PARAM(float *, 0);
    const float *prediction = PARAM(const float *, 1);
    const float *target = PARAM(const float *, 2);
    float weight = PARAM(float, 3);
    size_t count = covered(launch, PARAM(uint32_t, 4));
    for (size_t i = 0; i < count; i++) {
        gradient[i] = (prediction[i] - target[i]) * weight;
    }
}

/* ---- loading and launching ----------------------------------------------------------------- */

#define KERNELS(X)                                                                                 \
    X(fill)                                                                                        \
    X(scale)                                                                                       \
    X(add)                                                                                         \
    X(axpy)                                                                                        \
    X(mark_nan)                                                                                    \
    X(matmul)                                                                                      \
    X(add_row)                                                                                     \
    X(sum_rows)                                                                                    \
    X(relu)                                                                                        \
    X(relu_backward)                                                                               \
    X(mse)                                                                                         \
    X(mse_backward)

static struct {
#define KERNEL_FIELD(name) sample_kernel name;
    KERNELS(KERNEL_FIELD)
#undef KERNEL_FIELD
} kernels;

void kernels_load(void)
{
#define KERNEL_LOAD(name) kernels.name = sample_kernel_load(name##_ptx, #name, name##_twin);
    KERNELS(KERNEL_LOAD)
#undef KERNEL_LOAD
}

void kernels_unload(void)
{
#define KERNEL_UNLOAD(name) sample_kernel_unload(kernels.name);
    KERNELS(KERNEL_UNLOAD)
#undef KERNEL_UNLOAD
}

void kernel_fill(tarn_stream stream, void *out, float value, uint32_t count)
{
    void *params[] = {&out, &value, &count};
    sample_launch(stream, kernels.fill, count, params);
}

void kernel_scale(tarn_stream stream, void *out, const void *in, float factor, uint32_t count)
{
    void *params[] = {&out, &in, &factor, &count};
    sample_launch(stream, kernels.scale, count, params);
}

void kernel_add(tarn_stream stream, void *out, const void *left, const void *right, uint32_t count)
{
    void *params[] = {&out, &left, &right, &count};
    sample_launch(stream, kernels.add, count, params);
}

void kernel_axpy(tarn_stream stream, void *y, const void *x, float factor, uint32_t count)
{
    void *params[] = {&y, &x, &factor, &count};
    sample_launch(stream, kernels.axpy, count, params);
}

void kernel_mark_nan(tarn_stream stream, void *out, const void *in, uint32_t count)
{
    void *params[] = {&out, &in, &count};
    sample_launch(stream, kernels.mark_nan, count, params);
}

void kernel_matmul(tarn_stream stream, void *out, const void *left, const void *right,
                   uint32_t rows, uint32_t inner, uint32_t columns)
{
    uint32_t one = 1;
    void *params[] = {&out, &left, &right, &rows, &inner, &columns, &inner, &one, &columns, &one};
    sample_launch(stream, kernels.matmul, (size_t)rows * columns, params);
}

void kernel_matmul_tn(tarn_stream stream, void *out, const void *left, const void *right,
                      uint32_t rows, uint32_t inner, uint32_t columns)
{
    uint32_t one = 1;
    void *params[] = {&out, &left, &right, &rows, &inner, &columns, &one, &rows, &columns, &one};
    sample_launch(stream, kernels.matmul, (size_t)rows * columns, params);
}

void kernel_matmul_nt(tarn_stream stream, void *out, const void *left, const void *right,
                      uint32_t rows, uint32_t inner, uint32_t columns)
{
    uint32_t one = 1;
    void *params[] = {&out, &left, &right, &rows, &inner, &columns, &inner, &one, &one, &inner};
    sample_launch(stream, kernels.matmul, (size_t)rows * columns, params);
}

void kernel_add_row(tarn_stream stream, void *matrix, const void *row, uint32_t rows,
                    uint32_t columns)
{
    uint32_t count = rows * columns;
    void *params[] = {&matrix, &row, &count, &columns};
    sample_launch(stream, kernels.add_row, count, params);
}

void kernel_sum_rows(tarn_stream stream, void *out, const void *matrix, uint32_t rows,
                     uint32_t columns)
{
    void *params[] = {&out, &matrix, &rows, &columns};
    sample_launch(stream, kernels.sum_rows, columns, params);
}

void kernel_relu(tarn_stream stream, void *values, uint32_t count)
{
    void *params[] = {&values, &count};
    sample_launch(stream, kernels.relu, count, params);
}

void kernel_relu_backward(tarn_stream stream, void *gradient, const void *activation,
                          uint32_t count)
{
    void *params[] = {&gradient, &activation, &count};
    sample_launch(stream, kernels.relu_backward, count, params);
}

void kernel_mse(tarn_stream stream, void *loss, const void *prediction, const void *target,
                uint32_t count)
{
    float weight = 1.0F / (float)count;
    void *params[] = {&loss, &prediction, &target, &weight, &count};
    sample_launch(stream, kernels.mse, 1, params);
}

void kernel_mse_backward(tarn_stream stream, void *gradient, const void *prediction,
                         const void *target, uint32_t count)
{
    float weight = 2.0F / (float)count;
    void *params[] = {&gradient, &prediction, &target, &weight, &count};
    sample_launch(stream, kernels.mse_backward, count, params);
}

tarn_stream sample_open(void)
{
    sample_driver_open();
    kernels_load();
    return sample_stream_create();
}

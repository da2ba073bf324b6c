// SPDX-License-Identifier: Apache-2.0
/* kernels.h -- the kernels that the samples launch.
 *
 * All of them work on float. Matrices are stored row by row. Sums are taken in one fixed order and
 * nothing is fused or rounded twice, so every run gives the same bits, on any GPU and on the
 * simulated driver. Simplicity comes before speed here: one thread for each output.
 *
 * A launch is one more call on the stream: it can be captured like any other. */
#ifndef SAMPLES_COMMON_KERNELS_H
#define SAMPLES_COMMON_KERNELS_H

#include <stdint.h>

#include "tarn/types.h"

/* Loads all kernels; after sample_driver_open, and not during a capture. */
void kernels_load(void);
void kernels_unload(void);

/* Driver, kernels and a stream at once, for the length of the process. */
tarn_stream sample_open(void);

/* out[i] = value */
void kernel_fill(tarn_stream stream, void *out, float value, uint32_t count);

/* out[i] = factor * in[i] */
void kernel_scale(tarn_stream stream, void *out, const void *in, float factor, uint32_t count);

/* out[i] = left[i] + right[i] */
void kernel_add(tarn_stream stream, void *out, const void *left, const void *right, uint32_t count);

/* y[i] = y[i] + factor * x[i]. With x a gradient and a negative factor: a step of SGD. */
void kernel_axpy(tarn_stream stream, void *y, const void *x, float factor, uint32_t count);

/* out[i] = 1 where in[i] is not a number, else 0 */
void kernel_mark_nan(tarn_stream stream, void *out, const void *in, uint32_t count);

/* out (rows x columns) = left (rows x inner) * right (inner x columns) */
void kernel_matmul(tarn_stream stream, void *out, const void *left, const void *right,
                   uint32_t rows, uint32_t inner, uint32_t columns);

/* The same with left stored transposed, as inner x rows. */
void kernel_matmul_tn(tarn_stream stream, void *out, const void *left, const void *right,
                      uint32_t rows, uint32_t inner, uint32_t columns);

/* The same with right stored transposed, as columns x inner. */
void kernel_matmul_nt(tarn_stream stream, void *out, const void *left, const void *right,
                      uint32_t rows, uint32_t inner, uint32_t columns);

/* matrix (rows x columns): row is added to each of its rows */
void kernel_add_row(tarn_stream stream, void *matrix, const void *row, uint32_t rows,
                    uint32_t columns);

/* out[c] = the sum of column c of matrix (rows x columns), from the first row to the last */
void kernel_sum_rows(tarn_stream stream, void *out, const void *matrix, uint32_t rows,
                     uint32_t columns);

/* values[i] = 0 where values[i] <= 0. What is not a number stays so: trouble is not hidden. */
void kernel_relu(tarn_stream stream, void *values, uint32_t count);

/* gradient[i] = 0 where kernel_relu gave activation[i] = 0 */
void kernel_relu_backward(tarn_stream stream, void *gradient, const void *activation,
                          uint32_t count);

/* loss[0] = the mean of (prediction[i] - target[i])^2 */
void kernel_mse(tarn_stream stream, void *loss, const void *prediction, const void *target,
                uint32_t count);

/* gradient[i] = the derivative of that mean by prediction[i] */
void kernel_mse_backward(tarn_stream stream, void *gradient, const void *prediction,
                         const void *target, uint32_t count);

#endif

// SPDX-License-Identifier: Apache-2.0
/* network.h -- a small multi-layer perceptron, trained by stochastic gradient descent.
 *
 * Its weights are blocks of a pool. What a training step needs in between, activations and
 * gradients, it takes with tarn_malloc and gives back with tarn_free, without knowing where that
 * memory comes from: captured, it comes from the capture's pool. */
#ifndef SAMPLES_COMMON_NETWORK_H
#define SAMPLES_COMMON_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "tarn/tarn.h"

enum { NETWORK_LAYERS = 3, NETWORK_BLOCKS = 2 * NETWORK_LAYERS };

/* A network is plain data: the sizes and the addresses of its weights. */
typedef struct network_layer {
    uint32_t inputs;
    uint32_t outputs;
    void *weights; /* inputs x outputs floats */
    void *bias;    /* outputs floats */
} network_layer;

typedef struct network {
    network_layer layers[NETWORK_LAYERS];
    uint32_t batch; /* samples in a training step */
} network;

/* Allocates the weights in the pool, whatever the routes, and fills them from the seed.
 * sizes: of the input, of the layers between, of the output. */
void network_create(network *net, const uint32_t sizes[NETWORK_LAYERS + 1], uint32_t batch,
                    uint64_t seed, tarn_pool *pool, tarn_stream stream);
void network_destroy(network *net);

/* Enqueues one training step: forward, loss, backward, update.
 * input: batch x inputs floats; target: batch x outputs floats; loss: one float. */
void network_step(const network *net, tarn_device *device, tarn_stream stream, const void *input,
                  const void *target, float rate, void *loss);

/* The weights and biases of all layers: how many floats, and their values on the host. */
size_t network_weight_count(const network *net);
void network_read_weights(const network *net, tarn_stream stream, float *weights);

/* The network's blocks, as tarn_pool_check_live expects them. */
void network_expect(const network *net, tarn_expected expected[NETWORK_BLOCKS]);

#endif

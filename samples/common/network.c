// SPDX-License-Identifier: Apache-2.0
#include "common/network.h"

#include <math.h>
#include <stdlib.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "common/random.h"

static uint32_t weight_count(const network_layer *layer)
{
    return layer->inputs * layer->outputs;
}

static void create_layer(network_layer *layer, uint64_t *random, tarn_pool *pool,
                         tarn_stream stream)
{
    uint32_t count = weight_count(layer);
    CHECK(tarn_pool_malloc(pool, count * sizeof(float), 0, stream, &layer->weights));
    CHECK(tarn_pool_malloc(pool, layer->outputs * sizeof(float), 0, stream, &layer->bias));

    /* Within this limit values keep their size from layer to layer (He and others, "Delving deep
     * into rectifiers", 2015). Biases begin at zero. */
    float *weights = malloc(count * sizeof(float));
    REQUIRE(weights != NULL);
    float limit = sqrtf(6.0F / (float)layer->inputs);
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = limit * random_uniform(random);
    }
    sample_copy_to_device(stream, layer->weights, weights, count * sizeof(float));
    kernel_fill(stream, layer->bias, 0.0F, layer->outputs);
    sample_synchronize(stream); /* the copy reads the host's weights until then */
    free(weights);
}

void network_create(network *net, const uint32_t sizes[NETWORK_LAYERS + 1], uint32_t batch,
                    uint64_t seed, tarn_pool *pool, tarn_stream stream)
{
    uint64_t random = seed;
    net->batch = batch;
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        net->layers[i].inputs = sizes[i];
        net->layers[i].outputs = sizes[i + 1];
        create_layer(&net->layers[i], &random, pool, stream);
    }
}

void network_destroy(network *net)
{
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        CHECK(tarn_free(net->layers[i].weights));
        CHECK(tarn_free(net->layers[i].bias));
    }
}

static void *take_floats(tarn_device *device, size_t count, tarn_stream stream)
{
    void *address = NULL;
    CHECK(tarn_malloc(device, count * sizeof(float), stream, &address));
    return address;
}

/* One layer's share of the way back. gradient is that of its output. Returns that of its input, or
 * NULL for the first layer, where nobody asks for it. */
static void *step_back(const network *net, size_t index, tarn_device *device, tarn_stream stream,
                       const void *input, const void *gradient, float rate)
{
    const network_layer *layer = &net->layers[index];
    void *input_gradient = NULL;
    if (index > 0) { /* before the weights change */
        uint32_t count = net->batch * layer->inputs;
        input_gradient = take_floats(device, count, stream);
        kernel_matmul_nt(stream, input_gradient, gradient, layer->weights, net->batch,
                         layer->outputs, layer->inputs);
        kernel_relu_backward(stream, input_gradient, input, count);
    }

    void *weight_gradient = take_floats(device, weight_count(layer), stream);
    kernel_matmul_tn(stream, weight_gradient, input, gradient, layer->inputs, net->batch,
                     layer->outputs);
    kernel_axpy(stream, layer->weights, weight_gradient, -rate, weight_count(layer));
    CHECK(tarn_free(weight_gradient));

    void *bias_gradient = take_floats(device, layer->outputs, stream);
    kernel_sum_rows(stream, bias_gradient, gradient, net->batch, layer->outputs);
    kernel_axpy(stream, layer->bias, bias_gradient, -rate, layer->outputs);
    CHECK(tarn_free(bias_gradient));
    return input_gradient;
}

/* Memory freed here is reused at once by the next allocation on the same stream, so no wait is
 * needed: the kernels that used it stand before those that will, in the stream and in the graph. */
void network_step(const network *net, tarn_device *device, tarn_stream stream, const void *input,
                  const void *target, float rate, void *loss)
{
    void *outputs[NETWORK_LAYERS];
    const void *layer_input = input;
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        const network_layer *layer = &net->layers[i];
        uint32_t count = net->batch * layer->outputs;
        outputs[i] = take_floats(device, count, stream);
        kernel_matmul(stream, outputs[i], layer_input, layer->weights, net->batch, layer->inputs,
                      layer->outputs);
        kernel_add_row(stream, outputs[i], layer->bias, net->batch, layer->outputs);
        if (i + 1 < NETWORK_LAYERS) { /* the last layer is linear */
            kernel_relu(stream, outputs[i], count);
        }
        layer_input = outputs[i];
    }

    const void *prediction = outputs[NETWORK_LAYERS - 1];
    uint32_t count = net->batch * net->layers[NETWORK_LAYERS - 1].outputs;
    void *gradient = take_floats(device, count, stream);
    kernel_mse(stream, loss, prediction, target, count);
    kernel_mse_backward(stream, gradient, prediction, target, count);

    for (size_t i = NETWORK_LAYERS; i-- > 0;) {
        CHECK(tarn_free(outputs[i])); /* its successor has read it */
        layer_input = i > 0 ? outputs[i - 1] : input;
        void *next = step_back(net, i, device, stream, layer_input, gradient, rate);
        CHECK(tarn_free(gradient));
        gradient = next;
    }
}

size_t network_weight_count(const network *net)
{
    size_t count = 0;
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        count += weight_count(&net->layers[i]) + net->layers[i].outputs;
    }
    return count;
}

void network_read_weights(const network *net, tarn_stream stream, float *weights)
{
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        const network_layer *layer = &net->layers[i];
        size_t count = weight_count(layer);
        sample_copy_to_host(stream, weights, layer->weights, count * sizeof(float));
        weights += count;
        sample_copy_to_host(stream, weights, layer->bias, layer->outputs * sizeof(float));
        weights += layer->outputs;
    }
}

void network_expect(const network *net, tarn_expected expected[NETWORK_BLOCKS])
{
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        const network_layer *layer = &net->layers[i];
        expected[2 * i] = (tarn_expected){layer->weights, weight_count(layer) * sizeof(float)};
        expected[2 * i + 1] = (tarn_expected){layer->bias, layer->outputs * sizeof(float)};
    }
}

// SPDX-License-Identifier: Apache-2.0
/* core.h -- the fifteen functions that most programs need.
 *
 *   tarn_device_open(0, NULL, &device);
 *   tarn_pool_create(device, NULL, &pool);
 *   tarn_capture_begin(pool, stream, NULL, &capture);
 *   tarn_malloc(device, bytes, stream, &scratch);
 *   ... kernels on the stream ...
 *   tarn_free(scratch);
 *   tarn_capture_end(capture, &graph);
 *   tarn_graph_replay(graph, stream);            any number of times
 *
 * The full reference, with every status, stands in the header named above each group. Those headers
 * declare the same functions again. NULL options are the defaults. tarn/status.h says what a status
 * means, and tarn_last_error() gives the sentence of the last failure.
 *
 * Threads: any thread may call any of these functions, except during a capture of the same stream;
 * see tarn/graph.h. */
#ifndef TARN_CORE_H
#define TARN_CORE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tarn/device.h: the allocator of one CUDA device, counted, and given back by the close. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_open(int ordinal,
                                                      const tarn_device_options *options,
                                                      tarn_device **device);
TARN_API TARN_MUST_CHECK tarn_status tarn_device_close(tarn_device *device);

/* tarn/pool.h: a private pool, for graphs and checkpoints. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_create(tarn_device *device,
                                                      const tarn_pool_options *options,
                                                      tarn_pool **pool);
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_destroy(tarn_pool *pool);

/* tarn/memory.h: memory in the order of a stream. tarn_malloc serves from the pool of the stream's
 * capture or route, or else from the default pool; tarn_pool_malloc from the given pool.
 * tarn_free reuses the block behind its own stream's work, tarn_free_on behind the given stream's
 * work as well. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_malloc(tarn_device *device, size_t bytes,
                                                     tarn_stream stream, void **address);
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_pool_malloc(tarn_pool *pool, size_t bytes,
                                                          size_t alignment, tarn_stream stream,
                                                          void **address);
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_free(void *address);
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_free_on(void *address, tarn_stream stream);

/* tarn/graph.h: a section of a stream, captured into a graph of the pool, and replayed. */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_begin(tarn_pool *pool, tarn_stream stream,
                                                        const tarn_capture_options *options,
                                                        tarn_capture **capture);
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_end(tarn_capture *capture, tarn_graph **graph);
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_graph_replay(tarn_graph *graph, tarn_stream stream);
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_destroy(tarn_graph *graph);

/* tarn/checkpoint.h: the pool's live blocks, and their bytes, taken and restored. The delta may be
 * NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_take(tarn_pool *pool, tarn_contents contents,
                                                          tarn_stream stream,
                                                          tarn_checkpoint **checkpoint);
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_restore(tarn_checkpoint *checkpoint,
                                                             tarn_stream stream,
                                                             tarn_delta **delta);
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_destroy(tarn_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif

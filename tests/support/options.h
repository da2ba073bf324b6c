// SPDX-License-Identifier: Apache-2.0
/* options.h -- options of a capture as an argument. */
#ifndef TARN_TESTS_SUPPORT_OPTIONS_H
#define TARN_TESTS_SUPPORT_OPTIONS_H

#include "tarn/graph.h"

/* Of a mode alone. */
#define CAPTURE_MODE(mode_)                                                                        \
    (&(tarn_capture_options){.size = sizeof(tarn_capture_options), .mode = (mode_)})

/* Into a graph of the caller's: a body in a capture's graph, of a group; or, where outer is NULL, one that stands
 * alone. */
#define CAPTURE_INTO(outer_, group_, graph_, mode_)                                                \
    (&(tarn_capture_options){.size = sizeof(tarn_capture_options),                                 \
                             .mode = (mode_),                                                      \
                             .driver_graph = (graph_),                                             \
                             .outer = (outer_),                                                    \
                             .group = (group_)})

#endif

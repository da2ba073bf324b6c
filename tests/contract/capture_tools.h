// SPDX-License-Identifier: Apache-2.0
/* capture_tools.h -- what the cases about captures share: states, ends, and a node to capture. */
#ifndef TARN_CONTRACT_CAPTURE_TOOLS_H
#define TARN_CONTRACT_CAPTURE_TOOLS_H

#include "contract/graph_tools.h"

/* Shows the state of a stream, by the name it has in the case. */
void capture_show(const char *which, tn_cu_stream stream, tn_cu_capture_status expected);
#define IS_ACTIVE(stream) capture_show(#stream, stream, TN_CU_CAPTURE_STATUS_ACTIVE)
#define IS_INVALIDATED(stream) capture_show(#stream, stream, TN_CU_CAPTURE_STATUS_INVALIDATED)
#define IS_IDLE(stream) capture_show(#stream, stream, TN_CU_CAPTURE_STATUS_NONE)

/* Ends a capture, and shows how many nodes and edges are in its graph. */
void capture_end(tn_cu_stream stream, size_t nodes, size_t edges);

/* Ends a capture that cannot end well. */
void capture_end_badly(tn_cu_stream stream, tn_cu_result expected);
#define END_BADLY(result, stream) capture_end_badly(stream, CONTRACT_RESULT_##result)

/* Ends a capture, whatever comes of it. */
void capture_abandon(tn_cu_stream stream);

/* Launches a kernel that does nothing; captures one. */
tn_cu_result capture_launch(tn_cu_stream stream);
void capture_node(tn_cu_stream stream);

/* Allocates linear memory, which is unsafe, and frees it again; of any stream. */
tn_cu_result capture_allocate(tn_cu_stream stream);

#endif

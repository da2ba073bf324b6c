// SPDX-License-Identifier: Apache-2.0
/* compare_report.h -- what differs between two graphs as text, for people and for programs that read JSON. */
#ifndef TARN_INSPECT_COMPARE_REPORT_H
#define TARN_INSPECT_COMPARE_REPORT_H

#include "tarn/compare.h"

/* Writes as much as capacity bytes hold, and a zero byte. Returns the length of the whole, without it. */
size_t tn_graph_diff_write_report(const tarn_graph_diff *diff, tarn_report_format format,
                                  char *buffer, size_t capacity);

#endif

// SPDX-License-Identifier: Apache-2.0
/* compare_report.h -- the differences of two graphs as text, for people and for programs that read
 * JSON. */
#ifndef TARN_INSPECT_COMPARE_REPORT_H
#define TARN_INSPECT_COMPARE_REPORT_H

#include "tarn/compare.h"

/* Writes as much as capacity bytes hold, and a zero byte. Returns the length of the whole, without
 * the zero byte. */
size_t tn_graph_diff_write_report(const tarn_graph_diff *diff, tarn_report_format format,
                                  char *buffer, size_t capacity);

#endif

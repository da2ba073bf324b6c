// SPDX-License-Identifier: Apache-2.0
/* tool.h -- telling a tool that watches the process, as compute-sanitizer does.
 *
 * The environment names the tool's library (abi/nvtx.h), which is loaded once, and stays. Where no
 * tool is named, nothing is loaded, and these functions do nothing.
 *
 * Locking: tn_tool_load needs the PROCESS lock. The other functions may be called by any thread,
 * with locks held. The tool calls nothing of Tarn's. The caller orders the calls about the same heap
 * or region. */
#ifndef TARN_DRIVER_TOOL_H
#define TARN_DRIVER_TOOL_H

#include <stdbool.h>
#include <stdint.h>

/* Loads the tool, if the environment names a library that loads. Later calls do nothing. */
void tn_tool_load(void);

/* A range of the thread's time, such as a growth; ranges nest. name: of static storage. */
void tn_tool_begin(const char *name);
void tn_tool_end(void);

/* A counter with this name, 0 where the tool has none; and its value from now on. */
uint64_t tn_tool_make_counter(const char *name);
void tn_tool_count(uint64_t counter, uint64_t value);

/* Whether the tool checks memory: the tool takes heaps and regions. */
bool tn_tool_checks_memory(void);

/* From now on, kernels may use bytes of this memory in regions alone. NULL: the tool has refused. */
void *tn_tool_open_heap(uint64_t base, uint64_t bytes);
void tn_tool_close_heap(void *heap);

/* Kernels may use these bytes of a heap, or no longer. Regions do not overlap. */
void tn_tool_add_region(void *heap, uint64_t base, uint64_t bytes);
void tn_tool_remove_region(uint64_t base);

#endif

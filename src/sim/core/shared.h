// SPDX-License-Identifier: Apache-2.0
/* shared.h -- devices that several processes share: the memory of each process, in a file.
 *
 * Nothing is shared unless the setting TARN_SIM_SHARED names a file. Processes with the same file
 * have the same devices: memory is free for a process if no living process has the memory.
 *
 * Invariants
 *   SS4  a record has one process, which alone writes there while the record's lock lasts
 *   SS5  a record without a lock counts for nothing
 *
 * Locking: the lock of core.h; between processes a lock of the file. */
#ifndef TARN_SIM_SHARED_H
#define TARN_SIM_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Joins the processes of a file, which is made when missing. Returns false, with a report, when the
 * file cannot be used, or has no record left. */
bool tn_sim_shared_join(const char *path);

/* Between these two calls no other process takes memory. Without effect where nothing is shared. */
void tn_sim_shared_enter(void);
void tn_sim_shared_leave(void);

/* The bytes of a device that other processes have, and those of dead makers that anybody has. */
size_t tn_sim_shared_others(int device);

/* Writes down how much of a device this process has now. */
void tn_sim_shared_publish(int device, size_t bytes);

/* Takes note of exportable memory of a device, by the identity of its file, made or imported by
 * this process; and forgets the memory. */
void tn_sim_shared_note(int device, uint64_t file, size_t bytes, bool made);
void tn_sim_shared_forget(uint64_t file);

#endif

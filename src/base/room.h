// SPDX-License-Identifier: Apache-2.0
/* room.h -- how much memory of the system's the process may still take.
 *
 * The system promises memory freely, and kills a process at the first write without memory for the
 * page. Callers that take much memory ask here before.
 *
 * Locking: none; any thread, under no lock, for files are read. */
#ifndef TARN_BASE_ROOM_H
#define TARN_BASE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct tn_room {
    uint64_t bytes;    /* UINT64_MAX: nothing limits it */
    const char *limit; /* the name of the limit, for a sentence; a constant */
};

/* The least that the machine, or any control group of the process, has left. Groups of versions 1
 * and 2 count. Files' pages that a group has not used lately count as left. */
struct tn_room tn_room_read(void);

/* Takes bytes off the room until tn_room_return, so two callers at a time are not promised the same.
 * The bytes go back once they are touched, or will not be. False: the room is too small, and *room
 * tells how large. */
bool tn_room_promise(uint64_t bytes, struct tn_room *room);
void tn_room_return(uint64_t bytes);

#endif

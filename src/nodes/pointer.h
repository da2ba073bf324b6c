// SPDX-License-Identifier: Apache-2.0
/* pointer.h -- the driver's knowledge of an address.
 *
 * Locking: none here. Any thread, in any context or none. Nothing here waits for the GPU or
 * disturbs a capture. */
#ifndef TARN_NODES_POINTER_H
#define TARN_NODES_POINTER_H

#include "driver/gpu.h"

enum tn_pointee_kind {
    TN_POINTEE_UNKNOWN, /* no memory of the driver's: pageable, freed, reserved without memory, or no address at all */
    TN_POINTEE_DEVICE, /* a device's, or managed */
    TN_POINTEE_HOST,   /* page-locked */
};

struct tn_pointee {
    enum tn_pointee_kind kind;
    int ordinal;      /* the memory's device, or the device it was page-locked for; -1: UNKNOWN */
    uint64_t address; /* the allocation, or the reservation in which it is mapped; 0: UNKNOWN */
    uint64_t bytes;
};

/* DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pointer_query(struct tn_gpu *gpu, uint64_t address,
                                             struct tn_pointee *memory);

#endif

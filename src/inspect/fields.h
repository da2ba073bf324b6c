// SPDX-License-Identifier: Apache-2.0
/* fields.h -- the parameters of a node that is no kernel, as a list of named values. Two nodes of
 * one type are thereby compared in one way, whatever their type.
 *
 * A value without meaning, as the pitch of a single row, is 0 in the list whatever the driver
 * gives.
 *
 * Locking: none. Nothing here calls the driver. */
#ifndef TARN_INSPECT_FIELDS_H
#define TARN_INSPECT_FIELDS_H

#include "nodes/node.h"

enum { TN_FIELDS_MAX = 19 };

struct tn_field {
    const char *name; /* static; the nth name of a part is the same for all nodes of a type */
    uint64_t value;
    bool is_address; /* address of the device's */
};

struct tn_fields {
    struct tn_field items[TN_FIELDS_MAX];
    size_t count;
    bool is_opaque; /* further values exist, which nobody can read */
};

/* Reads a part of a node's parameters: part 0 is the node's own, the others are a batch's
 * operations, or an allocation's rights of access. False: the node has no such part; a type without
 * fields has none. */
bool tn_fields_read(const struct tn_node *node, size_t part, struct tn_fields *fields);

#endif

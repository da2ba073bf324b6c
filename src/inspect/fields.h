// SPDX-License-Identifier: Apache-2.0
/* fields.h -- what a node that is no kernel was made with, as a list of named values: so that two nodes of one type are
 * compared in one way, whatever their type.
 *
 * What has no meaning, as the pitch of one row, is 0 in the list whatever the driver gives.
 *
 * Locking: none. Nothing here calls the driver. */
#ifndef TARN_INSPECT_FIELDS_H
#define TARN_INSPECT_FIELDS_H

#include "nodes/node.h"

enum { TN_FIELDS_MAX = 19 };

struct tn_field {
    const char *name; /* static; the nth name of a part is the same for all nodes of a type */
    uint64_t value;
    bool is_address; /* of the device's */
};

struct tn_fields {
    struct tn_field items[TN_FIELDS_MAX];
    size_t count;
    bool is_opaque; /* there is more, which nobody can read */
};

/* One part of what a node was made with: the first is the node's own, the others are a batch's operations, or an
 * allocation's rights of access. False: the node has no such part; a type that has no fields has none. */
bool tn_fields_read(const struct tn_node *node, size_t part, struct tn_fields *fields);

#endif

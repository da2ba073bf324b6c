// SPDX-License-Identifier: Apache-2.0
/* liar.h -- drivers that say one thing and do another: an honest one's functions, but for one. For
 * suites that have the library's inside. */
#ifndef TARN_TESTS_SUPPORT_LIAR_H
#define TARN_TESTS_SUPPORT_LIAR_H

#include "driver/driver.h"

/* A capture's begin succeeds, and none has begun. */
struct tn_driver test_beginning_nothing(const struct tn_driver *honest);

/* A capture's end is refused with UNKNOWN, and the capture and its graph are gone. */
struct tn_driver test_ending_and_refusing(const struct tn_driver *honest);

/* The update of an executable graph is refused for that reason, whatever it is. */
struct tn_driver test_refusing_updates(const struct tn_driver *honest, tn_cu_update_result reason);

/* The driver is honest; what is called before it makes memory is called meanwhile, as far as others can tell. */
struct tn_driver test_calling_while_it_creates(const struct tn_driver *honest,
                                               void (*called)(void));

/* Asked for its free memory, the device answers with these in turn, of 64 GiB. The array must stay. */
struct tn_driver test_telling_free_bytes(const struct tn_driver *honest, const size_t *free_bytes);

/* The driver knows of one node that its packed parameters' beginning alone was given. One such driver at a time. */
struct tn_driver test_shortening_buffers(const struct tn_driver *honest, tn_cu_graphnode node,
                                         size_t bytes);

/* Nodes are of that type, whatever they are. One such driver at a time. */
struct tn_driver test_naming_types(const struct tn_driver *honest, tn_cu_graphnode_type type);

/* Devices say that they lack the attribute. One such driver at a time. */
struct tn_driver test_lacking_attribute(const struct tn_driver *honest,
                                        tn_cu_device_attribute attribute);

/* The first operation of each batch is one that nobody knows. One such driver at a time. */
struct tn_driver test_inventing_operations(const struct tn_driver *honest);

#endif

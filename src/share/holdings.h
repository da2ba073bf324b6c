// SPDX-License-Identifier: Apache-2.0
/* holdings.h -- the chunks of a connection, counted.
 *
 * Locking: the connection's lock is held. */
#ifndef TARN_SHARE_HOLDINGS_H
#define TARN_SHARE_HOLDINGS_H

#include "share/connection.h"

struct tn_holdings {
    uint64_t chunk_count; /* handed over, and not forgotten since */
    uint64_t chunk_bytes;
    uint64_t mapped_bytes; /* of a consumer's runs; 0 at the producer */
};

struct tn_holdings tn_connection_count_holdings(const tarn_connection *connection);

#endif

// SPDX-License-Identifier: Apache-2.0
/* tarn.h -- all public headers of the library. */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include "tarn/audit.h"
#include "tarn/checkpoint.h"
#include "tarn/compare.h"
#include "tarn/core.h"
#include "tarn/device.h"
#include "tarn/graph.h"
#include "tarn/graph_memory.h"
#include "tarn/history.h"
#include "tarn/host.h"
#include "tarn/leaks.h"
#include "tarn/memory.h"
#include "tarn/metrics.h"
#include "tarn/pool.h"
#include "tarn/pressure.h"
#include "tarn/share.h"
#include "tarn/snapshot.h"
#include "tarn/stats.h"
#include "tarn/symmetric.h"
#include "tarn/status.h"
#include "tarn/tracker.h"
#include "tarn/types.h"
#include "tarn/version.h"

#endif

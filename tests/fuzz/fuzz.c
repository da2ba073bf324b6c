// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz.h"

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    model_run_bytes(bytes, size < FUZZ_BYTES_MAX ? size : FUZZ_BYTES_MAX);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/contract.h"

#include <stdio.h>
#include <stdlib.h>

static tn_contract_handler contract_handler;

void tn_contract_set_handler(tn_contract_handler handler)
{
    contract_handler = handler;
}

void tn_contract_failed(const char *file, int line, const char *text)
{
    if (contract_handler != NULL)
        contract_handler(file, line, text);
    (void)fprintf(stderr, "tarn: %s:%d: broken contract: %s\n", file, line, text);
    abort();
}

// SPDX-License-Identifier: Apache-2.0
/* contract.h -- assertions of internal contracts.
 *
 * TN_ASSERT states a condition that must hold inside the library. A caller's mistake is a status,
 * not an assertion. In builds with TARN_DEBUG_CHECKS a false condition stops the process. Other
 * builds compile the expression but do not evaluate it. */
#ifndef TARN_BASE_CONTRACT_H
#define TARN_BASE_CONTRACT_H

#ifndef TARN_DEBUG_CHECKS
#define TARN_DEBUG_CHECKS 0
#endif

/* A false assertion calls this function with its place and text. Tests replace the function to see
 * a contract fire. The function must not return. */
typedef void (*tn_contract_handler)(const char *file, int line, const char *text);
void tn_contract_set_handler(tn_contract_handler handler); /* NULL: print and abort */
void tn_contract_failed(const char *file, int line, const char *text);

#if TARN_DEBUG_CHECKS
#define TN_ASSERT(expression)                                                                      \
    ((expression) ? (void)0 : tn_contract_failed(__FILE__, __LINE__, #expression))
#else
/* Negated, for a bit-field has no size of its own. */
#define TN_ASSERT(expression) ((void)sizeof(!(expression)))
#endif

#endif

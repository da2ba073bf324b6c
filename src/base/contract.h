// SPDX-License-Identifier: Apache-2.0
/* contract.h -- assertions of internal contracts.
 *
 * TN_ASSERT states what must hold inside the library. It is not for callers' mistakes, which are
 * statuses. In builds with TARN_DEBUG_CHECKS a false one stops the process; in others the expression
 * is compiled but not evaluated. */
#ifndef TARN_BASE_CONTRACT_H
#define TARN_BASE_CONTRACT_H

#ifndef TARN_DEBUG_CHECKS
#define TARN_DEBUG_CHECKS 0
#endif

/* What a false assertion calls, with place and text. Tests replace it to see a contract fire; it
 * must not return. */
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

// SPDX-License-Identifier: Apache-2.0
/* judge.h -- what an audit and its reports must say of a graph with one mistake. */
#ifndef TARN_TESTS_PLANTED_JUDGE_H
#define TARN_TESTS_PLANTED_JUDGE_H

#include "support/cuda.h"

/* Whose node has the mistake. In each case it is the second of three; and the child graph's, or the conditional, node
 * is the second of the graph's three. */
enum planted_graph { IN_GRAPH, IN_CHILD, IN_BODY };

struct planted_expected {
    tarn_pointer pointer; /* all of it, but for the index of its node */
    enum planted_graph graph;
    int type;            /* of its node */
    bool may_be_unknown; /* the class, besides the one given */
    /* Correct addresses of the node, in live blocks of other pools and page-locked. */
    size_t external;
    size_t pinned;
};

void planted_judge(const tarn_audit *audit, const struct planted_expected *expected);

/* Appends the audit's JSON, on one line, to the file that TARN_TEST_AUDITS names, where it names one. */
void planted_note_json(const tarn_audit *audit);

#endif

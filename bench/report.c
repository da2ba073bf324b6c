// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commit.h"
#include "limits.h"

enum { RESULTS_MAX = 1024 };

static struct bench_result results[RESULTS_MAX];
static size_t result_count;
static struct bench_machine measured_on;
static FILE *out; /* NULL: the lines go to stdout, at the end */
static char date[32];

static void put_string(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            (void)fputc('\\', file);
        if (c < ' ')
            (void)fprintf(file, "\\u%04x", c);
        else
            (void)fputc(c, file);
    }
    (void)fputc('"', file);
}

static void put_field(FILE *file, const char *name, const char *text)
{
    (void)fprintf(file, "\"%s\": ", name);
    if (text != NULL)
        put_string(file, text);
    else
        (void)fputs("null", file);
    (void)fputs(", ", file);
}

/* The goal of a result: rivals have none. */
static const struct bench_goal *goal_of(const struct bench_result *result)
{
    return result->rival == NULL ? bench_goal_find(result->row, result->variant) : NULL;
}

static void put_line(FILE *file, const struct bench_result *result)
{
    const struct bench_summary *summary = &result->summary;
    const struct bench_goal *goal = goal_of(result);

    (void)fputc('{', file);
    put_field(file, "date", date);
    put_field(file, "commit", BENCH_COMMIT);
    put_field(file, "device", measured_on.device_name);
    (void)fprintf(file, "\"driver_version\": %d, \"simulated\": %s, ", measured_on.driver_version,
                  measured_on.simulated ? "true" : "false");
    put_field(file, "row", result->row);
    put_field(file, "variant", result->variant);
    put_field(file, "rival", result->rival);
    put_field(file, "unit", result->unit);
    (void)fprintf(file, "\"median\": %.6g, \"p10\": %.6g, \"p90\": %.6g, \"samples\": %zu, ",
                  summary->median, summary->p10, summary->p90, summary->samples);
    put_field(file, "target_is", goal == NULL ? NULL : goal->at_least ? "at least" : "at most");
    if (goal != NULL)
        (void)fprintf(file, "\"target\": %.6g}\n", goal->target);
    else
        (void)fputs("\"target\": null}\n", file);
}

void bench_report_begin(const struct bench_machine *machine, const char *out_path)
{
    time_t now = time(NULL);
    struct tm utc;

    measured_on = *machine;
    (void)gmtime_r(&now, &utc);
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (out_path != NULL) {
        out = fopen(out_path, "a");
        if (out == NULL)
            bench_fail("%s cannot be opened for appending", out_path);
    }
    (void)printf("%s, driver %d.%d%s; commit %s\n\n", machine->device_name,
                 machine->driver_version / 1000, machine->driver_version % 1000 / 10,
                 machine->simulated ? " (simulated)" : "", BENCH_COMMIT);
    (void)printf("%-13s  %-46s  %-23s  %9s  %-18s  %s\n", "row", "variant", "of", "median",
                 "p10 to p90", "unit");
}

void bench_report_end(void)
{
    if (out == NULL) {
        (void)fputc('\n', stdout);
        for (size_t i = 0; i < result_count; i++)
            put_line(stdout, &results[i]);
        return;
    }
    if (fclose(out) != 0)
        bench_fail("the results could not be written in full");
    out = NULL;
}

void bench_report(const char *row, const char *variant, const char *rival, const char *unit,
                  struct bench_summary summary)
{
    struct bench_result *result = &results[result_count];
    char spread[40];

    if (result_count == RESULTS_MAX)
        bench_fail("more than %d results", RESULTS_MAX);
    result_count += 1;
    *result = (struct bench_result){.row = row, .rival = rival, .unit = unit, .summary = summary};
    (void)snprintf(result->variant, sizeof result->variant, "%s", variant);

    (void)snprintf(spread, sizeof spread, "%.4g to %.4g", summary.p10, summary.p90);
    (void)printf("%-13s  %-46s  %-23s  %9.4g  %-18s  %s\n", row, variant,
                 rival != NULL ? rival : "Tarn", summary.median, spread, unit);
    (void)fflush(stdout);
    if (out != NULL) {
        put_line(out, result);
        (void)fflush(out);
    }
}

void bench_report_absent(const char *row, const char *variant, const char *rival)
{
    (void)printf("%-13s  %-46s  %-23s  not available on this driver\n", row, variant, rival);
}

const struct bench_result *bench_result_find(const char *row, const char *variant, bool rival)
{
    for (size_t i = 0; i < result_count; i++) {
        if (strcmp(results[i].row, row) == 0 && strcmp(results[i].variant, variant) == 0 &&
            (results[i].rival != NULL) == rival)
            return &results[i];
    }
    return NULL;
}

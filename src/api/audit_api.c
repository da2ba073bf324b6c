// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "api/structs.h"
#include "graphs/guard.h"
#include "inspect/audit.h"
#include "pools/sweep.h"

/* Reads and checks the caller's options, NULL or of any version. */
static tarn_status read_options(const tarn_device *device, const tarn_audit_options *given,
                                tarn_audit_options *options)
{
    tarn_status status = tn_sized_read(TN_AUDIT_OPTIONS, given, options);

    if (status != TARN_OK)
        return status;
    if (options->bodies == NULL && options->body_count > 0)
        return tn_bad_argument("bodies is NULL, and body_count is not 0");
    for (size_t i = 0; i < options->body_count; i++) {
        if (options->bodies[i].graph == NULL)
            return tn_bad_argument("a body's graph is NULL");
    }
    if (options->accepted >> TARN_POINTER_CLASSES != 0)
        return tn_bad_argument("accepted has a bit that is no class's");
    if (options->refused >> TARN_POINTER_CLASSES != 0)
        return tn_bad_argument("refused has a bit that is no class's");
    if ((options->refused & options->accepted) != 0)
        return tn_bad_argument("a class is both accepted and refused");
    if (options->pool != NULL && !tn_is_pool(options->pool))
        return tn_bad_handle("pool");
    if (options->pool != NULL && options->pool->device != device)
        return tn_bad_argument("the pool is of another device");
    return TARN_OK;
}

/* The caller keeps the pool: the graph's own, or one whose handle the caller has. */
static tarn_status audit_subject(const struct tn_call *call, const struct tn_audit_subject *subject,
                                 const tarn_audit_options *options, tarn_audit **audit)
{
    tarn_status status = tn_call_enter(call);

    return status == TARN_OK ? tn_audit(call->device, subject, options,
                                        options->list_all ? TN_LIST_ALL : TN_LIST_NONE, audit)
                             : status;
}

/* How a graph of Tarn's is looked through with the caller's options. */
static tarn_status check_for_graph(const tarn_graph *graph, const tarn_audit_options *given,
                                   tarn_audit_options *options, struct tn_audit_subject *subject)
{
    tarn_status status = read_options(graph->pool->device, given, options);

    if (status == TARN_OK && options->pool != NULL && options->pool != graph->pool)
        status = tn_bad_argument("the pool of the options is not the graph's");
    *subject = (struct tn_audit_subject){.graph = graph->driver_graph,
                                         .pool = graph->pool,
                                         .mark = options->mark != 0 ? options->mark : graph->mark,
                                         .keeper = tn_guard_watch(graph),
                                         .is_guarded = graph->guard_kind != TARN_GUARD_IGNORE,
                                         .is_listed = true};
    return status;
}

tarn_status tarn_graph_audit(tarn_graph *graph, const tarn_audit_options *options,
                             tarn_audit **audit)
{
    struct tn_audit_subject subject;
    tarn_audit_options chosen;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    if (audit == NULL)
        return tn_bad_argument("audit is NULL: there is nowhere to put the result");
    status = check_for_graph(graph, options, &chosen, &subject);
    return tn_leave(status == TARN_OK ? audit_subject(&call, &subject, &chosen, audit) : status);
}

tarn_status tarn_driver_graph_audit(tarn_device *device, tarn_driver_graph driver_graph,
                                    const tarn_audit_options *options, tarn_audit **audit)
{
    struct tn_audit_subject subject;
    tarn_audit_options chosen;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (driver_graph == NULL || audit == NULL)
        return tn_bad_argument("driver_graph or audit is NULL");
    status = read_options(device, options, &chosen);
    if (status == TARN_OK && chosen.scan && chosen.pool == NULL)
        status = tn_bad_argument("scan looks through the own pool, and pool is NULL");
    if (status == TARN_OK && chosen.pool != NULL && !tn_call_and_pool(&call, chosen.pool))
        status = call.status;
    subject =
        (struct tn_audit_subject){.graph = driver_graph, .pool = chosen.pool, .mark = chosen.mark};
    if (status == TARN_OK && chosen.mark == 0)
        subject.mark = tn_device_end_mark(device, driver_graph);
    return tn_leave(status == TARN_OK ? audit_subject(&call, &subject, &chosen, audit) : status);
}

tarn_status tarn_graph_guard(tarn_graph *graph, tarn_guard guard, const tarn_audit_options *options)
{
    struct tn_audit_subject subject;
    tarn_audit_options chosen;
    struct tn_guard *made = NULL;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    if ((unsigned)guard > TARN_GUARD_REFUSE)
        return tn_bad_argument("the guard is not one of tarn_guard");
    status = check_for_graph(graph, options, &chosen, &subject);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_guard_make(graph, guard, &subject, &chosen, &made);
    if (status == TARN_OK) {
        graph->guard_kind = guard;
        tn_guard_replace(graph, made);
    }
    return tn_leave(status);
}

tarn_status tarn_graph_check(tarn_graph *graph)
{
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    return tn_leave(tn_graph_is_stale(graph) ? tn_guard_refuse(graph) : TARN_OK);
}

void tarn_audit_destroy(tarn_audit *audit)
{
    if (tn_call_goes_on() && audit != NULL)
        tn_audit_drop(audit);
}

tarn_status tarn_audit_report(const tarn_audit *audit, tarn_report_format format, char *buffer,
                              size_t capacity, size_t *length)
{
    tarn_status status;
    size_t whole;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = tn_check_report(format, buffer, capacity);
    if (audit == NULL)
        return tn_bad_argument("audit is NULL: there is nothing to report");
    if (status != TARN_OK)
        return status;
    whole = tn_audit_write_report(audit, format, buffer, capacity);
    if (length != NULL)
        *length = whole;
    return TARN_OK;
}

tarn_status tarn_device_mark(tarn_device *device, uint64_t *mark)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (mark == NULL)
        return tn_bad_argument("mark is NULL: there is nowhere to put the result");
    *mark = tn_device_mark(device);
    return tn_leave(TARN_OK);
}

const char *tarn_pointer_class_name(tarn_pointer_class pointer_class)
{
    return tn_pointer_class_name(pointer_class);
}

const char *tarn_pointer_class_sentence(tarn_pointer_class pointer_class)
{
    return tn_pointer_class_sentence(pointer_class);
}

// SPDX-License-Identifier: Apache-2.0
/* Each label is a record of a KiB, with its title and the title's id in the history of the last
 * allocation. A key of the thread's ends the labels with their thread. */
#include "pools/labels.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/object.h"

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* of each thread that has labels */
static bool key_is_made;

static _Thread_local struct tn_label *own __attribute__((tls_model("initial-exec")));
static _Thread_local struct tn_label *pushed __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned pushed_count __attribute__((tls_model("initial-exec")));

static struct tn_label *current(void)
{
    return pushed != NULL ? pushed : own;
}

/* Tells stacking of the label that counts, unless the label is empty. */
static void follow(void)
{
    struct tn_label *label = current();

    TN_ASSERT((pushed != NULL) == (pushed_count > 0));
    tn_stacking_set_label(label != NULL && tn_label_has_text(label) ? label : NULL);
}

/* The child of a fork leaves the records alone. */
static void end_thread(void *mine)
{
    (void)mine;
    if (tn_is_forked())
        return;
    tn_stacking_set_label(NULL);
    while (pushed != NULL) {
        struct tn_label *outer = pushed->outer;

        tn_host_free(pushed);
        pushed = outer;
    }
    pushed_count = 0;
    tn_host_free(own);
    own = NULL;
}

static void make_key(void)
{
    tn_object_keep(); /* end_thread is called at the end of any thread that has had labels */
    key_is_made = pthread_key_create(&key, end_thread) == 0;
}

/* A label that ends with its thread; NULL: no memory. */
static struct tn_label *make(const struct tn_title *title)
{
    struct tn_label *label;

    (void)pthread_once(&key_once, make_key);
    if (!key_is_made || pthread_setspecific(key, &key) != 0)
        return NULL;
    label = tn_host_alloc(1, sizeof *label);
    if (label != NULL)
        label->title = *title;
    return label;
}

static tarn_status refuse_label(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a label");
}

tarn_status tn_label_make_title(struct tn_title *title, const char *text)
{
    switch (tn_title_make(title, text != NULL ? text : "")) {
    case TN_TITLE_GOOD:
        return TARN_OK;
    case TN_TITLE_LONG:
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the text has more than %d bytes",
                       TN_TITLE_BYTES_MAX);
    default:
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the text is not UTF-8");
    }
}

tarn_status tn_labels_set(const struct tn_title *title)
{
    struct tn_label *label = current();

    if (label == NULL) {
        label = make(title);
        if (label == NULL)
            return refuse_label();
        own = label;
    }
    label->title = *title;
    label->stacking = 0;
    follow();
    return TARN_OK;
}

tarn_status tn_labels_push(const struct tn_title *title)
{
    struct tn_label *label;

    if (pushed_count == TN_LABELS_MAX)
        return tn_fail(TARN_ERR_LIMIT,
                       "the thread has pushed %d labels: pop one for each that is pushed",
                       TN_LABELS_MAX);
    label = make(title);
    if (label == NULL)
        return refuse_label();
    label->outer = pushed;
    pushed = label;
    pushed_count += 1;
    follow();
    return TARN_OK;
}

tarn_status tn_labels_pop(void)
{
    struct tn_label *label = pushed;

    if (label == NULL)
        return tn_fail(TARN_ERR_WRONG_STATE, "the thread has pushed no label that is left");
    pushed = label->outer;
    pushed_count -= 1;
    follow();
    tn_host_free(label);
    return TARN_OK;
}

const char *tn_labels_text(void)
{
    const struct tn_label *label = current();

    return label != NULL ? tn_title_text(&label->title) : "";
}

// SPDX-License-Identifier: Apache-2.0
/* One transaction fills all tables. The file is new and gets its name at the end, so SQLite keeps no
 * journal of it. */
#include "formats.h"

#ifdef TARN_COMMAND_SQLITE

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/contract.h"
#include "base/title.h"
#include "intern.h"
#include "notes.h"

enum statement { ABOUT, CHANGE, NOTE, OPERAND, LIVE, FRAME, RANGE, STATEMENTS };

/* docs/convert.md has the same tables. */
static const char tables[] =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;"
    "CREATE TABLE about(key TEXT PRIMARY KEY, value);"
    "CREATE TABLE changes(id INTEGER PRIMARY KEY, time_ns INTEGER, kind TEXT, pool INTEGER,"
    " block INTEGER, stack INTEGER, address INTEGER, bytes INTEGER, requested INTEGER,"
    " pool_bytes INTEGER, pool_requested INTEGER);"
    "CREATE TABLE notes(id INTEGER PRIMARY KEY, time_ns INTEGER, name TEXT, pool INTEGER);"
    "CREATE TABLE operands(note INTEGER, name TEXT, value INTEGER);"
    "CREATE TABLE live(block INTEGER PRIMARY KEY, pool INTEGER, stack INTEGER, address INTEGER,"
    " bytes INTEGER, requested INTEGER, tag INTEGER);"
    "CREATE TABLE frames(stack INTEGER, depth INTEGER, function TEXT, file TEXT, line INTEGER,"
    " module TEXT, place INTEGER);"
    "CREATE TABLE ranges(id INTEGER PRIMARY KEY, time_ns INTEGER, thread INTEGER, range INTEGER,"
    " name TEXT, ends INTEGER);";

static const char indexes[] = "CREATE INDEX changes_of_blocks ON changes(block);"
                              "CREATE INDEX changes_of_pools ON changes(pool, id);"
                              "CREATE INDEX operands_of_notes ON operands(note);"
                              "CREATE INDEX frames_of_stacks ON frames(stack, depth); COMMIT;";

static const char *const insertions[STATEMENTS] = {
    [ABOUT] = "INSERT INTO about VALUES(?, ?)",
    [CHANGE] = "INSERT INTO changes VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [NOTE] = "INSERT INTO notes VALUES(?, ?, ?, ?)",
    [OPERAND] = "INSERT INTO operands VALUES(?, ?, ?)",
    [LIVE] = "INSERT OR IGNORE INTO live VALUES(?, ?, ?, ?, ?, ?, ?)",
    [FRAME] = "INSERT INTO frames VALUES(?, ?, ?, ?, ?, ?, ?)",
    [RANGE] = "INSERT INTO ranges VALUES(?, ?, ?, ?, ?, ?)",
};

struct sqlite {
    struct tale *tale;
    sqlite3 *base;
    sqlite3_stmt *statements[STATEMENTS];
    int status; /* of the first failure */
    int bound;  /* columns of the row that is made */
    struct sums sums;
    struct intern stacks; /* whose frames are written */
};

static void keep(struct sqlite *sqlite, int status)
{
    if (sqlite->status == SQLITE_OK && status != SQLITE_OK && status != SQLITE_DONE)
        sqlite->status = status;
}

static void put_number(struct sqlite *sqlite, enum statement statement, uint64_t value)
{
    TN_ASSERT(statement < STATEMENTS);
    keep(sqlite,
         sqlite3_bind_int64(sqlite->statements[statement], ++sqlite->bound, (sqlite3_int64)value));
}

/* text NULL, or empty: NULL. */
static void put_text(struct sqlite *sqlite, enum statement statement, const char *text)
{
    TN_ASSERT(statement < STATEMENTS);
    sqlite->bound += 1;
    if (text != NULL && *text != '\0')
        keep(sqlite, sqlite3_bind_text(sqlite->statements[statement], sqlite->bound, text, -1,
                                       SQLITE_TRANSIENT));
    else
        keep(sqlite, sqlite3_bind_null(sqlite->statements[statement], sqlite->bound));
}

static void end_row(struct sqlite *sqlite, enum statement statement)
{
    if (sqlite->status == SQLITE_OK)
        keep(sqlite, sqlite3_step(sqlite->statements[statement]));
    (void)sqlite3_reset(sqlite->statements[statement]);
    sqlite->bound = 0;
}

static void write_about(struct sqlite *sqlite, const char *key, uint64_t value)
{
    put_text(sqlite, ABOUT, key);
    put_number(sqlite, ABOUT, value);
    end_row(sqlite, ABOUT);
}

static void write_head(struct sqlite *sqlite)
{
    const struct tale *tale = sqlite->tale;

    put_text(sqlite, ABOUT, "program");
    put_text(sqlite, ABOUT, tale->history.program);
    end_row(sqlite, ABOUT);
    write_about(sqlite, "process", tale->history.reader.head.process);
    write_about(sqlite, "begun_ns", tale->history.reader.head.began);
    write_about(sqlite, "lost_pages", tale->told.lost_pages);
    write_about(sqlite, "unknown_frees", tale->story.unknown);
}

static void write_frame(struct sqlite *sqlite, uint64_t stack, size_t depth,
                        const struct function_at *function, const struct symbol *symbol)
{
    put_number(sqlite, FRAME, stack);
    put_number(sqlite, FRAME, depth);
    put_text(sqlite, FRAME, function->name);
    put_text(sqlite, FRAME, function->file);
    put_number(sqlite, FRAME, function->line);
    put_text(sqlite, FRAME, symbol->module != NULL ? symbol->module->path : NULL);
    put_number(sqlite, FRAME, symbol->offset);
    end_row(sqlite, FRAME);
}

/* A label, or a frame of an interpreter. */
static void write_title(struct sqlite *sqlite, uint64_t stack, size_t depth, uint64_t frame)
{
    const bool is_label = tn_stack_title_of(frame, TN_STACK_LABEL) != 0;
    const struct symbol none = {.module = NULL};
    struct function_at function = {.line = 0};
    struct tn_title_text title;

    if (tn_title_read(&sqlite->tale->history.stacks, (uint32_t)frame, &title) != TN_SCROLL_READ)
        title.text[0] = '\0';
    (void)snprintf(function.name, sizeof function.name, "%s%.*s", is_label ? "label: " : "",
                   SYMBOL_NAME_BYTES - 16, title.text);
    write_frame(sqlite, stack, depth, &function, &none);
}

static void write_frames(struct sqlite *sqlite, uint64_t stack)
{
    struct tn_stack frames;
    size_t depth = 0;

    if (stack > UINT32_MAX ||
        tn_stacks_read(&sqlite->tale->history.stacks, (uint32_t)stack, &frames) != TN_SCROLL_READ)
        return;
    for (size_t i = 0; i < frames.count; i++) {
        struct symbol symbol;

        if ((frames.frames[i] & TN_STACK_TITLE) != 0) {
            write_title(sqlite, stack, depth++, frames.frames[i]);
            continue;
        }
        symbols_find(sqlite->tale->symbols, frames.frames[i] - 1, &symbol);
        for (unsigned j = 0; j < symbol.count; j++)
            write_frame(sqlite, stack, depth++, &symbol.functions[j], &symbol);
    }
}

/* The frames of a stack are written once. */
static void write_stack(struct sqlite *sqlite, uint64_t stack)
{
    char key[32];
    bool is_new;

    if (stack == TN_STACKS_NONE)
        return;
    (void)snprintf(key, sizeof key, "%" PRIu64, stack);
    if (intern_add(&sqlite->stacks, key, &is_new) == INTERN_NONE)
        keep(sqlite, SQLITE_NOMEM);
    if (is_new)
        write_frames(sqlite, stack);
}

static void write_note(struct sqlite *sqlite, size_t id, const struct change *change)
{
    const struct tn_note_words *note = &sqlite->tale->story.notes[change->block];

    put_number(sqlite, NOTE, id);
    put_number(sqlite, NOTE, change->time);
    put_text(sqlite, NOTE, note_name(note->note));
    put_number(sqlite, NOTE, note->pool);
    end_row(sqlite, NOTE);
    for (size_t i = 0; i < tn_note_operand_count(note->note); i++) {
        put_number(sqlite, OPERAND, id);
        put_text(sqlite, OPERAND, note_operand(note->note, i));
        put_number(sqlite, OPERAND, note->operands[i]);
        end_row(sqlite, OPERAND);
    }
}

static void write_change(struct sqlite *sqlite, size_t id, const struct change *change)
{
    static const char *const kinds[] = {
        [CHANGE_BEFORE] = "before", [CHANGE_ALLOC] = "allocated", [CHANGE_FREE] = "freed"};
    const struct sum *sum;

    if (change->kind == CHANGE_NOTE) {
        write_note(sqlite, id, change);
        return;
    }
    sum = sums_add(&sqlite->sums, change);
    if (sum == NULL) {
        keep(sqlite, SQLITE_NOMEM);
        return;
    }
    write_stack(sqlite, change->stack);
    put_number(sqlite, CHANGE, id);
    put_number(sqlite, CHANGE, change->time);
    put_text(sqlite, CHANGE, change->is_restored ? "restored" : kinds[change->kind]);
    put_number(sqlite, CHANGE, change->pool);
    put_number(sqlite, CHANGE, change->block);
    put_number(sqlite, CHANGE, change->stack);
    put_number(sqlite, CHANGE, change->address);
    put_number(sqlite, CHANGE, change->bytes);
    put_number(sqlite, CHANGE, change->requested);
    put_number(sqlite, CHANGE, sum->bytes);
    put_number(sqlite, CHANGE, sum->requested);
    end_row(sqlite, CHANGE);
}

static void write_live(struct sqlite *sqlite, const struct tn_told_block *block)
{
    write_stack(sqlite, block->stack);
    put_number(sqlite, LIVE, block->sequence);
    put_number(sqlite, LIVE, block->pool);
    put_number(sqlite, LIVE, block->stack);
    put_number(sqlite, LIVE, block->address);
    put_number(sqlite, LIVE, block->bytes);
    put_number(sqlite, LIVE, block->requested);
    put_number(sqlite, LIVE, block->tag);
    end_row(sqlite, LIVE);
}

static void write_range(struct sqlite *sqlite, size_t id, const struct tn_told_range *range)
{
    const struct history *history = &sqlite->tale->history;
    struct tn_title_text title;

    if (range->title > UINT32_MAX ||
        tn_title_read(&history->stacks, (uint32_t)range->title, &title) != TN_SCROLL_READ)
        title.text[0] = '\0';
    put_number(sqlite, RANGE, id);
    put_number(sqlite, RANGE, history_time(history, range->time));
    put_number(sqlite, RANGE, range->thread);
    put_number(sqlite, RANGE, range->range);
    put_text(sqlite, RANGE, title.text);
    put_number(sqlite, RANGE, range->ends);
    end_row(sqlite, RANGE);
}

static void write_all(struct sqlite *sqlite)
{
    const struct tale *tale = sqlite->tale;

    write_head(sqlite);
    for (size_t i = 0; sqlite->status == SQLITE_OK && i < tale->story.count; i++)
        write_change(sqlite, i, &tale->story.all[i]);
    for (size_t i = 0; sqlite->status == SQLITE_OK && i < tale->told.count; i++)
        write_live(sqlite, &tale->told.blocks[i]);
    for (size_t i = 0; sqlite->status == SQLITE_OK && i < tale->ranges.count; i++)
        write_range(sqlite, i, &tale->ranges.all[i]);
}

const char *format_sqlite(struct tale *tale, const char *path)
{
    struct sqlite sqlite = {.tale = tale};

    keep(&sqlite, sqlite3_open_v2(path, &sqlite.base, SQLITE_OPEN_READWRITE, NULL));
    if (sqlite.status == SQLITE_OK)
        keep(&sqlite, sqlite3_exec(sqlite.base, tables, NULL, NULL, NULL));
    for (int i = 0; sqlite.status == SQLITE_OK && i < STATEMENTS; i++)
        keep(&sqlite,
             sqlite3_prepare_v2(sqlite.base, insertions[i], -1, &sqlite.statements[i], NULL));
    if (sqlite.status == SQLITE_OK)
        write_all(&sqlite);
    for (int i = 0; i < STATEMENTS; i++)
        (void)sqlite3_finalize(sqlite.statements[i]);
    if (sqlite.status == SQLITE_OK)
        keep(&sqlite, sqlite3_exec(sqlite.base, indexes, NULL, NULL, NULL));
    keep(&sqlite, sqlite3_close(sqlite.base));
    sums_free(&sqlite.sums);
    intern_free(&sqlite.stacks);
    return sqlite.status != SQLITE_OK ? sqlite3_errstr(sqlite.status) : NULL;
}

#else

const char *format_sqlite(struct tale *tale, const char *path)
{
    (void)tale;
    (void)path;
    return "this command was built without SQLite (Debian: libsqlite3-dev)";
}

#endif

// SPDX-License-Identifier: Apache-2.0
#include "script_player.h"

#include <stdlib.h>

#include "harness.h"

void script_play(void *context, size_t steps)
{
    struct script_player *player = context;
    const struct bench_script *script = player->script;
    const struct script_allocator *allocator = player->allocator;

    for (size_t i = 0; i < 2 * steps; i++) {
        const struct bench_op *op = &script->ops[player->position];
        void **block = &player->blocks[op->slot];

        if (op->bytes == 0) {
            allocator->free(player, *block);
            *block = NULL;
        } else {
            *block = allocator->allocate(player, op->bytes);
        }
        player->position += 1;
        if (player->position == script->op_count)
            player->position = 0;
    }
}

void script_drain(void *context)
{
    const struct script_player *player = context;

    player->allocator->drain(player);
}

void script_player_fill(struct script_player *player)
{
    const struct bench_script *script = player->script;

    player->blocks = calloc(script->slot_count, sizeof *player->blocks);
    if (player->blocks == NULL)
        bench_fail("no host memory");
    player->allocator->open(player);
    for (size_t i = 0; i < script->slot_count; i++)
        player->blocks[i] = player->allocator->allocate(player, script->first_bytes[i]);
    for (size_t i = 1; script->order == BENCH_ORDER_COMB && i < script->slot_count; i += 2) {
        player->allocator->free(player, player->blocks[i]);
        player->blocks[i] = NULL;
    }
}

void script_player_open(struct script_player *player)
{
    script_player_fill(player);
    script_play(player, player->script->step_count);
    script_drain(player);
}

void script_player_close(struct script_player *player)
{
    for (size_t i = 0; i < player->script->slot_count; i++) {
        if (player->blocks[i] != NULL)
            player->allocator->free(player, player->blocks[i]);
    }
    script_drain(player);
    player->allocator->close(player);
    free(player->blocks);
}

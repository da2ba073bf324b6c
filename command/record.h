// SPDX-License-Identifier: Apache-2.0
/* record.h -- tarn record: runs a program with a long history, and keeps that. */
#ifndef TARN_COMMAND_RECORD_H
#define TARN_COMMAND_RECORD_H

/* arguments begin with the subcommand. Returns the command's exit status: the program's, or 128 and
 * the signal that ended it; 1 where it left no history; 2 where the usage is wrong or the history
 * cannot be written; 127 where the program cannot be started. */
int record_run(int count, char **arguments);

#endif

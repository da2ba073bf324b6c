// SPDX-License-Identifier: Apache-2.0
#include "gzip.h"

#include "base/contract.h"

#ifdef TARN_COMMAND_ZLIB

#include <zlib.h>

#include "base/checked.h"

enum { PIECE_BYTES = 1 << 15, GZIP_WINDOW = 15 + 16 };

bool gzip_write(const unsigned char *bytes, size_t count, FILE *file)
{
    unsigned char piece[PIECE_BYTES];
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)bytes};
    int status;

    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    do {
        if (stream.avail_in == 0) {
            stream.avail_in = (unsigned)tn_min(count, UINT32_MAX);
            count -= stream.avail_in;
        }
        stream.next_out = piece;
        stream.avail_out = PIECE_BYTES;
        status = deflate(&stream, count == 0 ? Z_FINISH : Z_NO_FLUSH);
        TN_ASSERT(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR);
        (void)fwrite(piece, 1, PIECE_BYTES - stream.avail_out, file);
    } while (status != Z_STREAM_END);
    (void)deflateEnd(&stream);
    return true;
}

#else

bool gzip_write(const unsigned char *bytes, size_t count, FILE *file)
{
    TN_ASSERT(bytes != NULL || count == 0);
    (void)fwrite(bytes, 1, count, file);
    return true;
}

#endif

/* feed.h - batches made ahead in a thread, so that a step never waits for one. */
#ifndef CLI_FEED_H
#define CLI_FEED_H

#include "data.h"

typedef struct cli_feed cli_feed;

/* Takes b, which stays the caller's and is not to be touched until the feed is closed. sizes are the bytes of the inputs, 0
 * for one there is not. The first batch is that of step first. */
int cli_feed_open(cli_batcher *b, const size_t sizes[MODEL_INPUTS_MAX], uint64_t first, cli_feed **out, cli_error *e);
/* The inputs of the next step; valid until the call after. */
void *const *cli_feed_next(cli_feed *f);
void cli_feed_close(cli_feed *f); /* NULL is a no-op */

#endif

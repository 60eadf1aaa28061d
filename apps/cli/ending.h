/* ending.h - what a trained model has to show, on stdout. */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include "trainer.h"

/* samples: where pictures go, or NULL. A model with nothing to show is fine. */
int cli_show_ending(cli_trainer *t, const char *samples, cli_error *e);

#endif

/* confusion.h - where a classifier goes wrong: a table of what it takes for what, and the images it is most wrong about. */
#ifndef CLI_CONFUSION_H
#define CLI_CONFUSION_H

#include "trainer.h"

/* Classifies every test image, and prints both. Returns 0, or a code with the sentence in e. */
int cli_confusion_print(cli_trainer *t, FILE *out, cli_error *e);

#endif

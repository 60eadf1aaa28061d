/* trace.h - the record of what the passes did: the one that dumps, `explain`, the visualiser and tests read
 * (<anneal/inspect.h> has the readers). A NULL trace is a no-op everywhere, so passes record without asking.
 * When memory for the record runs out, the record is cut off and says so (an_trace_is_whole); compiling goes on. */
#ifndef AN_REWRITE_TRACE_H
#define AN_REWRITE_TRACE_H

#include "ir/uop.h"
#include <anneal/inspect.h>

struct an_rule_info;

/* A pass begins: counts the nodes of g now. name is copied. Passes nest: what follows belongs to the innermost. */
void an_trace_pass_begin(an_trace *t, const char *name, an_graph *g);
/* The innermost pass ends: counts nodes and time. */
void an_trace_pass_end(an_trace *t);
/* For passes that know better than the length of the graph how many nodes went in and came out. */
void an_trace_pass_nodes(an_trace *t, size_t nodes_in, size_t nodes_out);

/* A rule rewrote before into after, in the graph of the innermost pass. */
void an_trace_fire(an_trace *t, const struct an_rule_info *rule, an_uop before, an_uop after);

/* A sentence about a decision of the innermost pass: why two kernels stayed apart, what an opt gained. */
void an_trace_note(an_trace *t, const char *fmt, ...) AN_PRINTF(2, 3);

#endif

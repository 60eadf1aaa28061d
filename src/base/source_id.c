/* source_id.c - which sources this library was built from; in the keys of what is kept on disk. */
#include "base/disk.h"

#include "source_id.h" /* made by Meson: tools/srcid */

uint64_t an_source_id(void)
{
    return AN_SOURCE_ID;
}

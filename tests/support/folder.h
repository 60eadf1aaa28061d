/* folder.h - a folder of a test's own, and what is in it. */
#ifndef AN_TEST_FOLDER_H
#define AN_TEST_FOLDER_H

#include <stddef.h>

enum { TEST_PATH_SIZE = 4096 };

/* Makes one below TMPDIR or /tmp; fails the case if it cannot. */
void an_test_folder(char path[TEST_PATH_SIZE]);
void an_test_folder_remove(const char *path); /* files and folders in it too */

/* The files in path whose name ends so, in order of names, as paths. Their number. */
size_t an_test_files(const char *path, const char *suffix, char found[][TEST_PATH_SIZE], size_t max);

/* A small file, whole. */
size_t an_test_file_read(const char *path, unsigned char *data, size_t max);
void an_test_file_write(const char *path, const void *data, size_t nbytes);

#endif

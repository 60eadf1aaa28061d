/* test_download.c - downloads against a small server in a thread: what comes right is kept, everything else leaves nothing. */
#define _DEFAULT_SOURCE /* mkdtemp, setenv */
#include <anneal/io.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char abc_sha[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/* --- the server ------------------------------------------------------------------------------------------- */

typedef struct server {
    int fd;
    unsigned port;
    pthread_t thread;
    an_ctx *ctx;
    char dir[64], path[96];
} server;

static void answer(int client, const char *request)
{
    const char *text = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone";
    if (strncmp(request, "GET /abc ", 9) == 0)
        text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    if (strncmp(request, "GET /wrong ", 11) == 0)
        text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabd";
    if (strncmp(request, "GET /short ", 11) == 0)
        text = "HTTP/1.1 200 OK\r\nContent-Length: 30\r\nConnection: close\r\n\r\nabc";
    if (strncmp(request, "GET /moved ", 11) == 0)
        text = "HTTP/1.1 302 Found\r\nLocation: /abc\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (strncmp(request, "GET /to-file ", 13) == 0)
        text = "HTTP/1.1 302 Found\r\nLocation: file:///etc/hostname\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (strncmp(request, "GET /loop ", 10) == 0)
        text = "HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    (void)!write(client, text, strlen(text));
}

static void *serve(void *user)
{
    server *s = user;
    for (;;) {
        char request[2048];
        const int client = accept(s->fd, NULL, NULL);
        if (client < 0) return NULL; /* shut down */
        const ssize_t n = read(client, request, sizeof request - 1);
        request[n > 0 ? n : 0] = '\0';
        answer(client, request);
        close(client);
    }
}

static int set_up(void **state)
{
    server *s = calloc(1, sizeof *s);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s->fd, (struct sockaddr *)&at, sizeof at) || listen(s->fd, 8) ||
        getsockname(s->fd, (struct sockaddr *)&at, &size))
        return -1;
    s->port = ntohs(at.sin_port);
    snprintf(s->dir, sizeof s->dir, "/tmp/anneal-test-XXXXXX");
    if (!mkdtemp(s->dir) || an_ctx_create(NULL, &s->ctx) || pthread_create(&s->thread, NULL, serve, s)) return -1;
    snprintf(s->path, sizeof s->path, "%s/file", s->dir);
    setenv("ANNEAL_TEST_HTTP", "1", 1);
    unsetenv("ANNEAL_OFFLINE");
    unsetenv("http_proxy");
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    server *s = *state;
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
    unlink(s->path);
    const int left = rmdir(s->dir); /* a partial file would make this fail */
    an_ctx_destroy(s->ctx);
    free(s);
    return left;
}

static an_status fetch(server *s, const char *name, const char *sha, size_t nbytes_max)
{
    char url[128];
    an_ctx_clear_error(s->ctx);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/%s", s->port, name);
    return an_download(s->ctx, &(an_download_desc){.url = url, .path = s->path, .sha256 = sha, .nbytes_max = nbytes_max});
}

/* The sentence has these words, and the folder is empty. */
static void assert_nothing_kept(server *s, const char *words)
{
    size_t n = 0;
    DIR *d = opendir(s->dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(n, 0);
    if (!strstr(an_ctx_error(s->ctx), words)) fail_msg("'%s' lacks '%s'", an_ctx_error(s->ctx), words);
}

/* --- the tests ----------------------------------------------------------------------------------------------- */

static void the_pinned_file_is_kept(void **state)
{
    server *s = *state;
    an_bytes b = {0};
    assert_int_equal(fetch(s, "abc", abc_sha, 0), AN_OK);
    assert_int_equal(an_file_read(s->ctx, s->path, 10, &b), AN_OK);
    assert_string_equal((const char *)b.data, "abc");
    an_bytes_fini(&b);
}

static void a_redirection_is_followed_but_not_to_a_file(void **state)
{
    server *s = *state;
    assert_int_equal(fetch(s, "moved", abc_sha, 0), AN_OK);
    unlink(s->path);
    assert_int_equal(fetch(s, "to-file", abc_sha, 0), AN_ERR_IO);
    assert_nothing_kept(s, "cannot be fetched");
    assert_int_equal(fetch(s, "loop", abc_sha, 0), AN_ERR_IO);
    assert_nothing_kept(s, "redirects");
}

static void another_file_than_pinned_is_refused(void **state)
{
    server *s = *state;
    assert_int_equal(fetch(s, "wrong", abc_sha, 0), AN_ERR_FORMAT);
    assert_nothing_kept(s, abc_sha);
}

static void a_broken_transfer_leaves_nothing(void **state)
{
    server *s = *state;
    assert_int_equal(fetch(s, "short", abc_sha, 0), AN_ERR_IO);
    assert_nothing_kept(s, "cannot be fetched");
}

static void a_missing_page_is_an_error(void **state)
{
    server *s = *state;
    assert_int_equal(fetch(s, "nothing", abc_sha, 0), AN_ERR_IO);
    assert_nothing_kept(s, "404");
}

static void more_than_the_limit_is_refused(void **state)
{
    server *s = *state;
    assert_int_equal(fetch(s, "abc", abc_sha, 2), AN_ERR_LIMIT);
    assert_nothing_kept(s, "more than the 2 bytes");
}

static bool cancel(void *user, size_t done, size_t total)
{
    (void)done;
    (void)total;
    ++*(int *)user;
    return false;
}

static void progress_can_cancel(void **state)
{
    server *s = *state;
    char url[128];
    int calls = 0;
    snprintf(url, sizeof url, "http://127.0.0.1:%u/abc", s->port);
    assert_int_equal(an_download(s->ctx, &(an_download_desc){.url = url, .path = s->path, .sha256 = abc_sha,
                                                             .progress = cancel, .user = &calls}),
                     AN_ERR_IO);
    assert_int_equal(calls, 1);
    assert_nothing_kept(s, "cancelled");
}

static void offline_fails_before_anything_is_asked(void **state)
{
    server *s = *state;
    setenv("ANNEAL_OFFLINE", "1", 1);
    assert_true(an_download_is_offline());
    assert_int_equal(fetch(s, "abc", abc_sha, 0), AN_ERR_UNSUPPORTED);
    assert_nothing_kept(s, "ANNEAL_OFFLINE");
    setenv("ANNEAL_OFFLINE", "0", 1);
    assert_false(an_download_is_offline());
    unsetenv("ANNEAL_OFFLINE");
}

static void only_https_is_fetched(void **state)
{
    server *s = *state;
    static const char *const urls[] = {"http://example.org/x", "ftp://127.0.0.1/x", "file:///etc/hostname",
                                       "http://127.0.0.1.example.org/x", "HTTPS://example.org"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        an_ctx_clear_error(s->ctx);
        assert_int_equal(an_download(s->ctx, &(an_download_desc){.url = urls[i], .path = s->path, .sha256 = abc_sha}),
                         AN_ERR_ARG);
        assert_nothing_kept(s, "only https");
    }
    unsetenv("ANNEAL_TEST_HTTP");
    assert_int_equal(fetch(s, "abc", abc_sha, 0), AN_ERR_ARG);
    assert_nothing_kept(s, "only https");
}

static void a_pin_must_be_whole(void **state)
{
    server *s = *state;
    assert_int_equal(fetch(s, "abc", "ba7816bf", 0), AN_ERR_ARG);
    assert_nothing_kept(s, "64 lower-case hex digits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_pinned_file_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_redirection_is_followed_but_not_to_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_file_than_pinned_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_transfer_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_page_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_the_limit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(progress_can_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(offline_fails_before_anything_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_https_is_fetched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pin_must_be_whole, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("download", tests, NULL, NULL);
}

/* A client in C with sd-bus (libsystemd-dev).
 *
 * cc client.c $(pkg-config --cflags --libs libsystemd) -o client
 * client generate | session | cancel | complete | signals | reconnect
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#define NAME "org.ganglion.Llm1"
#define ROOT "/org/ganglion/Llm1"
#define MANAGER NAME ".Manager"
#define SESSION NAME ".Session"
#define REQUEST NAME ".Request"

static void fail(const char *what, const sd_bus_error *error, int code) {
    fprintf(stderr, "%s: %s\n", what, error && error->message ? error->message : strerror(-code));
    exit(1);
}

static void check(const char *what, int code) {
    if (code < 0)
        fail(what, NULL, code);
}

/* Sends a call. The caller frees the reply. */
static sd_bus_message *reply_to(sd_bus *bus, sd_bus_message *call) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    int r = sd_bus_call(bus, call, 0, &error, &reply);
    if (r < 0)
        fail(sd_bus_message_get_member(call), &error, r);
    sd_bus_message_unref(call);
    return reply;
}

/* Appends one user message, for Generate and Submit. */
static sd_bus_message *question(sd_bus *bus, const char *method, const char *text, unsigned most, int signals) {
    sd_bus_message *call;
    check(method, sd_bus_message_new_method_call(bus, &call, NAME, ROOT, MANAGER, method));
    check(method, sd_bus_message_append(call, "a(sa{sv})", 1, "user", 1, "content", "s", text));
    check(method, signals ? sd_bus_message_append(call, "a{sv}", 2, "max_tokens", "u", most, "signals", "b", 1)
                          : sd_bus_message_append(call, "a{sv}", 1, "max_tokens", "u", most));
    return call;
}

/* Returns a reply's request and stream. sd-bus closes its descriptor with the message, so this one is a duplicate. */
static FILE *stream_of(sd_bus_message *reply, char **path) {
    const char *object;
    int fd;
    check("the reply", sd_bus_message_read(reply, "oh", &object, &fd));
    if (path)
        *path = strdup(object);
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    sd_bus_message_unref(reply);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");
    if (!stream)
        fail("the stream", NULL, -errno);
    return stream;
}

/* Prints the frames of a stream, and checks the last one. A real program reads them with a JSON library, and from its
 * event loop. */
static void show(FILE *stream, const char *reason) {
    char *line = NULL, wanted[64];
    size_t size = 0;
    int ended = 0;
    snprintf(wanted, sizeof wanted, "\"finish_reason\":\"%s\"", reason);
    while (getline(&line, &size, stream) >= 0) {
        fputs(line, stdout);
        ended = strstr(line, "\"done\":true") && strstr(line, wanted);
    }
    free(line);
    fclose(stream);
    if (!ended)
        fail("the stream did not end as it should", NULL, -EPROTO);
}

static void generate(sd_bus *bus) {
    show(stream_of(reply_to(bus, question(bus, "Generate", "hello", 20, 0)), NULL), "length");
}

static sd_bus_message *sent(sd_bus *bus, const char *session, const char *text) {
    sd_bus_message *call;
    check("Send", sd_bus_message_new_method_call(bus, &call, NAME, session, SESSION, "Send"));
    check("Send", sd_bus_message_append(call, "sa{sv}", text, 1, "max_tokens", "u", 10u));
    return call;
}

static char *open_session(sd_bus *bus) {
    sd_bus_message *call, *reply;
    const char *path;
    check("OpenSession", sd_bus_message_new_method_call(bus, &call, NAME, ROOT, MANAGER, "OpenSession"));
    check("OpenSession", sd_bus_message_append(call, "a{sv}", 1, "system", "s", "Be brief."));
    reply = reply_to(bus, call);
    check("OpenSession", sd_bus_message_read(reply, "o", &path));
    char *kept = strdup(path);
    sd_bus_message_unref(reply);
    return kept;
}

static void session(sd_bus *bus) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    char *path = open_session(bus);
    unsigned turns;
    show(stream_of(reply_to(bus, sent(bus, path, "hello")), NULL), "length");
    show(stream_of(reply_to(bus, sent(bus, path, "and again")), NULL), "length");
    check("Turns", sd_bus_get_property_trivial(bus, NAME, path, SESSION, "Turns", &error, 'u', &turns));
    if (turns != 2)
        fail("Turns", NULL, -EPROTO);
    check("Close", sd_bus_call_method(bus, NAME, path, SESSION, "Close", &error, NULL, ""));
    free(path);
}

static void cancel(sd_bus *bus) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    char *path;
    FILE *stream = stream_of(reply_to(bus, question(bus, "Generate", "hello", 400, 0)), &path);
    check("Cancel", sd_bus_call_method(bus, NAME, path, REQUEST, "Cancel", &error, NULL, ""));
    show(stream, "cancelled");
    free(path);
}

static void complete(sd_bus *bus) {
    sd_bus_message *call, *reply;
    const char *text;
    check("Complete", sd_bus_message_new_method_call(bus, &call, NAME, ROOT, MANAGER, "Complete"));
    check("Complete", sd_bus_message_append(call, "sa{sv}", "hello", 1, "max_tokens", "u", 10u));
    reply = reply_to(bus, call);
    check("Complete", sd_bus_message_read(reply, "s", &text));
    puts(text);
    sd_bus_message_unref(reply);
}

static int on_signal(sd_bus_message *signal, void *ended, sd_bus_error *error) {
    const char *text;
    (void)error;
    if (sd_bus_message_is_signal(signal, REQUEST, "Finished"))
        *(int *)ended = 1;
    else if (sd_bus_message_is_signal(signal, REQUEST, "Delta") && sd_bus_message_read(signal, "ts", NULL, &text) >= 0)
        fputs(text, stdout);
    return 0;
}

static void run_until(sd_bus *bus, const int *ended) {
    while (!*ended) {
        int r = sd_bus_process(bus, NULL);
        check("the bus", r);
        if (r == 0)
            check("the bus", sd_bus_wait(bus, UINT64_MAX));
    }
}

/* Subscribes before the request, so that no signal is missed. A program with several requests compares paths. */
static void signals(sd_bus *bus) {
    int ended = 0;
    check("the match", sd_bus_match_signal(bus, NULL, NAME, NULL, REQUEST, NULL, on_signal, &ended));
    sd_bus_message_unref(reply_to(bus, question(bus, "Submit", "hello", 20, 1)));
    run_until(bus, &ended);
    putchar('\n');
}

static int on_owner(sd_bus_message *signal, void *ended, sd_bus_error *error) {
    const char *name, *before, *now;
    (void)error;
    if (sd_bus_message_read(signal, "sss", &name, &before, &now) >= 0 && *now)
        *(int *)ended = 1;
    return 0;
}

/* A restarted daemon forgets its sessions, so the client opens another. */
static void reconnect(sd_bus *bus) {
    int restarted = 0;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    check("the match", sd_bus_add_match(bus, NULL,
        "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" NAME "'", on_owner, &restarted));
    char *path = open_session(bus);
    show(stream_of(reply_to(bus, sent(bus, path, "hello")), NULL), "length");
    puts("restart the daemon");
    fflush(stdout);
    run_until(bus, &restarted);
    if (sd_bus_call_method(bus, NAME, path, SESSION, "Clear", &error, NULL, "") >= 0 ||
        !sd_bus_error_has_name(&error, SD_BUS_ERROR_UNKNOWN_OBJECT))
        fail("the session outlived its daemon", &error, -EPROTO);
    free(path);
    path = open_session(bus);
    show(stream_of(reply_to(bus, sent(bus, path, "hello again")), NULL), "length");
    free(path);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(sd_bus *); } verbs[] = {
        {"generate", generate}, {"session", session}, {"cancel", cancel},
        {"complete", complete}, {"signals", signals}, {"reconnect", reconnect},
    };
    sd_bus *bus = NULL;
    check("the system bus", sd_bus_open_system(&bus));
    for (size_t i = 0; count == 2 && i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(arguments[1], verbs[i].name)) {
            verbs[i].run(bus);
            sd_bus_flush_close_unref(bus);
            return 0;
        }
    fprintf(stderr, "usage: client generate|session|cancel|complete|signals|reconnect\n");
    return 2;
}

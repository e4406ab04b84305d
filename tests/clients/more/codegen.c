/* GDBus with code that gdbus-codegen generates from the shipped interfaces. It blocks on each answer.
 *
 * codegen generate | session | cancel | complete | signals
 */
#include <gio/gunixfdlist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ganglion.h"

#define NAME "org.ganglion.Llm1"

static void check(gboolean holds, const char *what, GError *error) {
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, error ? error->message : "does not hold");
    exit(1);
}

static GVariant *options(guint most, gboolean signals) {
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_add(&builder, "{sv}", "max_tokens", g_variant_new_uint32(most));
    if (signals)
        g_variant_builder_add(&builder, "{sv}", "signals", g_variant_new_boolean(TRUE));
    return g_variant_builder_end(&builder);
}

static GVariant *user(const char *text) {
    return g_variant_new_parsed("[('user', {'content': <%s>})]", text);
}

/* Reads a stream to its end. The list closes its descriptors; `get` duplicates. */
static gboolean ends(GUnixFDList *fds, GVariant *stream, const char *reason) {
    char line[4096], wanted[64];
    gboolean found = FALSE;
    int fd = g_unix_fd_list_get(fds, g_variant_get_handle(stream), NULL);
    FILE *file = fdopen(fd, "r");
    g_object_unref(fds);
    snprintf(wanted, sizeof wanted, "\"finish_reason\":\"%s\"", reason);
    while (file && fgets(line, sizeof line, file))
        found = strstr(line, wanted) != NULL;
    if (file)
        fclose(file);
    return found;
}

static GString *said;

static void on_delta(GanglionRequest *request, guint64 seq, const char *text, gpointer data) {
    (void)request, (void)seq, (void)data;
    g_string_append(said, text);
}

static void on_finished(GanglionRequest *request, const char *reason, GVariant *info, GMainLoop *loop) {
    (void)request, (void)reason, (void)info;
    g_main_loop_quit(loop);
}

int main(int count, char **arguments) {
    const char *verb = count == 2 ? arguments[1] : "";
    const GDBusProxyFlags flags = G_DBUS_PROXY_FLAGS_NONE;
    const GBusType system = G_BUS_TYPE_SYSTEM;
    GError *error = NULL;
    GUnixFDList *fds = NULL;
    GVariant *stream = NULL;
    char *path = NULL;
    GanglionManager *manager =
        ganglion_manager_proxy_new_for_bus_sync(system, flags, NAME, "/org/ganglion/Llm1", NULL, &error);
    check(manager != NULL, "the manager", error);
    if (!strcmp(verb, "generate") || !strcmp(verb, "cancel")) {
        gboolean cancels = !strcmp(verb, "cancel");
        check(ganglion_manager_call_generate_sync(manager, user("hello"), options(cancels ? 400 : 20, FALSE), NULL,
                                                  &path, &stream, &fds, NULL, &error), "Generate", error);
        if (cancels) {
            GanglionRequest *request =
                ganglion_request_proxy_new_for_bus_sync(system, flags, NAME, path, NULL, &error);
            check(ganglion_request_call_cancel_sync(request, NULL, &error), "Cancel", error);
        }
        check(ends(fds, stream, cancels ? "cancelled" : "length"), verb, NULL);
    } else if (!strcmp(verb, "session")) {
        GVariant *messages;
        check(ganglion_manager_call_open_session_sync(manager, g_variant_new_parsed("@a{sv} {}"), &path, NULL, &error),
              "OpenSession", error);
        GanglionSession *session = ganglion_session_proxy_new_for_bus_sync(system, flags, NAME, path, NULL, &error);
        check(session != NULL, "the session", error);
        for (int turn = 0; turn < 2; turn++) {
            check(ganglion_session_call_send_sync(session, "hello", options(10, FALSE), NULL, &path, &stream, &fds,
                                                  NULL, &error), "Send", error);
            check(ends(fds, stream, "length"), verb, NULL);
        }
        check(ganglion_session_call_messages_sync(session, &messages, NULL, &error), "Messages", error);
        check(g_variant_n_children(messages) == 4, "four messages", NULL);
    } else if (!strcmp(verb, "complete")) {
        char *text;
        GVariant *info;
        check(ganglion_manager_call_complete_sync(manager, "hello", options(10, FALSE), &text, &info, NULL, &error),
              "Complete", error);
    } else if (!strcmp(verb, "signals")) {
        check(ganglion_manager_call_submit_sync(manager, user("hello"), options(20, TRUE), &path, NULL, &error),
              "Submit", error);
        GanglionRequest *request = ganglion_request_proxy_new_for_bus_sync(system, flags, NAME, path, NULL, &error);
        GMainLoop *loop = g_main_loop_new(NULL, FALSE);
        gboolean done;
        guint64 next;
        char *all;
        said = g_string_new(NULL);
        g_signal_connect(request, "delta", G_CALLBACK(on_delta), NULL);
        g_signal_connect(request, "finished", G_CALLBACK(on_finished), loop);
        /* The request may have ended before the subscription. */
        check(ganglion_request_call_read_sync(request, 0, &all, &next, &done, NULL, &error), "Read", error);
        if (!done)
            g_main_loop_run(loop);
        check(done ? *all : said->len > 0, verb, NULL);
    } else {
        return 2;
    }
    return 0;
}

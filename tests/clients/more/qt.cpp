// QtDBus with proxies that qdbusxml2cpp generates from the shipped interfaces. It blocks on each answer.
//
// qt generate | session | cancel | complete | signals

#include <QCoreApplication>
#include <QDBusConnection>
#include <QEventLoop>
#include <QFile>
#include <cstdio>
#include <cstdlib>

#include "manager.h"
#include "request.h"
#include "session.h"

using Manager = OrgGanglionLlm1ManagerInterface;
using Session = OrgGanglionLlm1SessionInterface;
using Request = OrgGanglionLlm1RequestInterface;

namespace {

const QString NAME = QStringLiteral("org.ganglion.Llm1");

QDBusConnection bus() { return QDBusConnection::systemBus(); }

void check(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "%s does not hold\n", what);
        std::exit(1);
    }
}

template <typename Reply> Reply done(Reply reply) {
    reply.waitForFinished();
    if (reply.isError()) {
        std::fprintf(stderr, "%s\n", qPrintable(reply.error().message()));
        std::exit(1);
    }
    return reply;
}

GanglionMessages user(const QString& text) { return {{QStringLiteral("user"), {{QStringLiteral("content"), text}}}}; }
QVariantMap tokens(unsigned most) { return {{QStringLiteral("max_tokens"), most}}; }

// QDBusUnixFileDescriptor closes its descriptor; QFile does not.
bool ends(const QDBusUnixFileDescriptor& stream, const char* reason) {
    QFile file;
    check(file.open(stream.fileDescriptor(), QIODevice::ReadOnly), "a stream");
    const QByteArray lines = file.readAll();
    return lines.contains(QByteArray("\"finish_reason\":\"") + reason + '"');
}

} // namespace

int main(int count, char** arguments) {
    QCoreApplication application(count, arguments);
    registerGanglionTypes();
    const QByteArray verb = count == 2 ? arguments[1] : "";
    Manager manager(NAME, QStringLiteral("/org/ganglion/Llm1"), bus());
    if (verb == "generate") {
        auto reply = done(manager.Generate(user(QStringLiteral("hello")), tokens(20)));
        check(ends(reply.argumentAt<1>(), "length"), "generate");
    } else if (verb == "session") {
        Session session(NAME, done(manager.OpenSession({})).value().path(), bus());
        for (auto text : {"hello", "and again"}) {
            auto reply = done(session.Send(QString::fromLatin1(text), tokens(10)));
            check(ends(reply.argumentAt<1>(), "length"), "session");
        }
        check(done(session.Messages()).value().size() == 4, "four messages");
        check(done(session.History()).value().last().role == QStringLiteral("assistant"), "the last is an answer");
    } else if (verb == "cancel") {
        auto reply = done(manager.Generate(user(QStringLiteral("hello")), tokens(400)));
        done(Request(NAME, reply.argumentAt<0>().path(), bus()).Cancel());
        check(ends(reply.argumentAt<1>(), "cancelled"), "cancel");
    } else if (verb == "complete") {
        auto reply = done(manager.Complete(QStringLiteral("hello"), tokens(10)));
        check(!reply.argumentAt<0>().isEmpty(), "a text");
        check(reply.argumentAt<1>().value(QStringLiteral("finish_reason")) == QStringLiteral("length"), "complete");
    } else if (verb == "signals") {
        auto options = tokens(20);
        options[QStringLiteral("signals")] = true;
        auto path = done(manager.Submit(user(QStringLiteral("hello")), options)).value().path();
        Request request(NAME, path, bus());
        QEventLoop loop;
        QString said;
        QObject::connect(&request, &Request::Delta, [&](qulonglong, const QString& text) { said += text; });
        QObject::connect(&request, &Request::Finished, &loop, &QEventLoop::quit);
        // The request may have ended before the subscription.
        if (request.result().isEmpty())
            loop.exec();
        else
            said = done(request.Read(0)).argumentAt<0>();
        check(!said.isEmpty(), "signals");
    } else {
        return 2;
    }
    return 0;
}

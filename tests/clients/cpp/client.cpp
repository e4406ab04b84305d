// A client in C++ with sdbus-c++ (libsdbus-c++-dev, libsdbus-c++-bin). Its proxies are generated from the shipped interfaces: sdbus-c++-xml2cpp org.ganglion.Llm1.Manager.xml --proxy=manager.h, and so on.
//
// client generate | session | cancel | complete | signals | reconnect

#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include <ext/stdio_filebuf.h>

#include "manager.h"
#include "request.h"
#include "session.h"

namespace {

const std::string NAME = "org.ganglion.Llm1";
using Fields = std::map<std::string, sdbus::Variant>;
using Message = sdbus::Struct<std::string, Fields>;

// Sessions and requests belong to the connection that made them: all proxies share one. A proxy that is made without a
// connection would make its own.
sdbus::IConnection& bus() {
    static const auto connection = [] {
        auto system = sdbus::createSystemBusConnection();
        system->enterEventLoopAsync();
        return system;
    }();
    return *connection;
}

// A generated proxy. It receives signals on the connection's own thread.
template <typename Interface> class Proxy final : public sdbus::ProxyInterfaces<Interface> {
public:
    explicit Proxy(const std::string& path) : sdbus::ProxyInterfaces<Interface>(bus(), NAME, path) {
        this->registerProxy();
    }
    ~Proxy() { this->unregisterProxy(); }
};

using Manager = Proxy<org::ganglion::Llm1::Manager_proxy>;
using Session = Proxy<org::ganglion::Llm1::Session_proxy>;

class Request final : public sdbus::ProxyInterfaces<org::ganglion::Llm1::Request_proxy> {
public:
    explicit Request(const std::string& path) : ProxyInterfaces(bus(), NAME, path) { registerProxy(); }
    ~Request() { unregisterProxy(); }

    // Returns when the request has ended, also if that was before the subscription.
    void wait() {
        if (Result().empty())
            ended.get_future().wait();
    }

private:
    void onDelta(const uint64_t&, const std::string& text) override { std::cout << text << std::flush; }
    void onFinished(const std::string&, const Fields&) override { ended.set_value(); }

    std::promise<void> ended;
};

std::vector<Message> user(const std::string& text) { return {Message{"user", Fields{{"content", text}}}}; }

Fields tokens(uint32_t most) { return {{"max_tokens", most}}; }

// Prints the frames of a stream, and checks the last one. UnixFd closes its descriptor, so the buffer gets a duplicate.
void show(const sdbus::UnixFd& fd, const std::string& reason) {
    __gnu_cxx::stdio_filebuf<char> buffer(dup(fd.get()), std::ios::in);
    std::istream stream(&buffer);
    std::string line, last;
    while (std::getline(stream, line)) {
        std::cout << line << '\n';
        last = line;
    }
    if (last.find("\"finish_reason\":\"" + reason + "\"") == std::string::npos)
        throw std::runtime_error("the stream did not end as it should");
}

void generate() {
    auto [path, stream] = Manager("/org/ganglion/Llm1").Generate(user("hello"), tokens(20));
    show(stream, "length");
}

void session() {
    Session session(Manager("/org/ganglion/Llm1").OpenSession({{"system", std::string("Be brief.")}}));
    for (auto text : {"hello", "and again"}) {
        auto [path, stream] = session.Send(text, tokens(10));
        show(stream, "length");
    }
    if (session.Turns() != 2 || session.Messages().size() != 5)
        throw std::runtime_error("a turn was lost");
    session.Close();
}

void cancel() {
    auto [path, stream] = Manager("/org/ganglion/Llm1").Generate(user("hello"), tokens(400));
    Request(path).Cancel();
    show(stream, "cancelled");
}

void complete() {
    auto [text, info] = Manager("/org/ganglion/Llm1").Complete("hello", tokens(10));
    std::cout << text << ' ' << info["finish_reason"].get<std::string>() << '\n';
}

void signals() {
    auto options = tokens(20);
    options["signals"] = true;
    Request request(Manager("/org/ganglion/Llm1").Submit(user("hello"), options));
    request.wait();
    std::cout << '\n';
}

// A restarted daemon forgets its sessions, so the client opens another.
void reconnect() {
    std::promise<void> restarted;
    auto names = sdbus::createProxy(bus(), "org.freedesktop.DBus", "/org/freedesktop/DBus");
    names->uponSignal("NameOwnerChanged")
        .onInterface("org.freedesktop.DBus")
        .call([&](const std::string& name, const std::string&, const std::string& now) {
            if (name == NAME && !now.empty())
                restarted.set_value();
        });
    names->finishRegistration();
    Manager manager("/org/ganglion/Llm1");
    Session session(manager.OpenSession({}));
    auto [path, stream] = session.Send("hello", tokens(10));
    show(stream, "length");
    std::cout << "restart the daemon" << std::endl;
    restarted.get_future().wait();
    try {
        session.Clear();
        throw std::runtime_error("the session outlived its daemon");
    } catch (const sdbus::Error& error) {
        if (error.getName() != "org.freedesktop.DBus.Error.UnknownObject")
            throw;
    }
    Session another(manager.OpenSession({}));
    auto [next, again] = another.Send("hello again", tokens(10));
    show(again, "length");
}

} // namespace

int main(int count, char** arguments) {
    const std::map<std::string, std::function<void()>> verbs{
        {"generate", generate}, {"session", session}, {"cancel", cancel},
        {"complete", complete}, {"signals", signals}, {"reconnect", reconnect},
    };
    try {
        verbs.at(count == 2 ? arguments[1] : "")();
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}

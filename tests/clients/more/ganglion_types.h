// The names of Qt's types in the shipped interfaces: qdbusxml2cpp -i ganglion_types.h
#pragma once

#include <QDBusArgument>
#include <QDBusMetaType>
#include <QList>
#include <QMap>
#include <QString>
#include <QVariantMap>

struct GanglionMessage {
    QString role;
    QVariantMap fields;
};
struct GanglionSaid {
    QString role;
    QString text;
};
struct GanglionReading {
    uint read;
    uint of;
};
using GanglionMessages = QList<GanglionMessage>;
using GanglionHistory = QList<GanglionSaid>;
using GanglionHolds = QList<QVariantMap>;
using GanglionSessions = QMap<QString, QVariantMap>;
Q_DECLARE_METATYPE(GanglionMessage)
Q_DECLARE_METATYPE(GanglionSaid)
Q_DECLARE_METATYPE(GanglionReading)

inline QDBusArgument& operator<<(QDBusArgument& to, const GanglionMessage& message) {
    to.beginStructure();
    to << message.role << message.fields;
    to.endStructure();
    return to;
}

inline const QDBusArgument& operator>>(const QDBusArgument& from, GanglionMessage& message) {
    from.beginStructure();
    from >> message.role >> message.fields;
    from.endStructure();
    return from;
}

inline QDBusArgument& operator<<(QDBusArgument& to, const GanglionSaid& said) {
    to.beginStructure();
    to << said.role << said.text;
    to.endStructure();
    return to;
}

inline const QDBusArgument& operator>>(const QDBusArgument& from, GanglionSaid& said) {
    from.beginStructure();
    from >> said.role >> said.text;
    from.endStructure();
    return from;
}

inline QDBusArgument& operator<<(QDBusArgument& to, const GanglionReading& reading) {
    to.beginStructure();
    to << reading.read << reading.of;
    to.endStructure();
    return to;
}

inline const QDBusArgument& operator>>(const QDBusArgument& from, GanglionReading& reading) {
    from.beginStructure();
    from >> reading.read >> reading.of;
    from.endStructure();
    return from;
}

// Call this once before the first call of a method.
inline void registerGanglionTypes() {
    qDBusRegisterMetaType<GanglionMessage>();
    qDBusRegisterMetaType<GanglionSaid>();
    qDBusRegisterMetaType<GanglionReading>();
    qDBusRegisterMetaType<GanglionMessages>();
    qDBusRegisterMetaType<GanglionHistory>();
    qDBusRegisterMetaType<GanglionHolds>();
    qDBusRegisterMetaType<GanglionSessions>();
}

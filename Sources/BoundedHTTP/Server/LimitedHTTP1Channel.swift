// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOSSL

struct LimitedHTTP1Channel: ServerChildChannel {
    private let http: HTTP1Channel
    private let connections: OpenConnections
    private let certificate: ServerCertificate?

    init(
        _ limits: ConnectionLimits,
        _ certificate: ServerCertificate?,
        configuration: HTTP1Channel.Configuration,
        responder: @escaping HTTPChannelHandler.Responder
    ) {
        let connections = OpenConnections(limits)
        self.connections = connections
        self.certificate = certificate
        http = HTTP1Channel(
            responder: { request, writer, channel in
                connections.asked(on: channel)
                defer { connections.answered(on: channel) }
                // A client that asks first sends its body after this, or after a second of silence.
                if request.head.headerFields[.expect]?.lowercased() == "100-continue" {
                    try await writer.writeInformationalHead(HTTPResponse(status: .continue))
                }
                try await responder(request, writer, channel)
            },
            configuration: configuration
        )
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        connections.opened(channel)
        guard let certificate else { return http.setup(channel: channel, logger: logger) }
        return channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: certificate.context))
        }
        .flatMap { http.setup(channel: channel, logger: logger) }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        await withTaskExecutorPreference(EventLoopExecutor(value.channel.eventLoop)) {
            await http.handle(value: value, logger: logger)
        }
    }
}

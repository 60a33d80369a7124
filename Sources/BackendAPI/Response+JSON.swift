// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import NIOCore
import NIOFoundationCompat

extension Response {
    static func json(
        _ value: some Encodable,
        _ status: HTTPResponse.Status = .ok,
        type: String = "application/json"
    ) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        // The types here always encode.
        let bytes = (try? encoder.encodeAsByteBuffer(value, allocator: ByteBufferAllocator())) ?? ByteBuffer()
        return Response(
            status: status,
            headers: [.contentType: type, .cacheControl: "no-store", .xContentTypeOptions: "nosniff"],
            body: ResponseBody(byteBuffer: bytes)
        )
    }
}

// Every OTLP message that Leyden reads or writes as JSON: the JSON name of each field, its number
// and its type. proto/ says the same to gRPC clients; a test holds the two together.

export type Scalar =
  | 'string'
  | 'bool'
  | 'double'
  | 'int64'
  | 'uint32'
  | 'fixed32'
  | 'fixed64'
  /** Any number: proto3 enums are open. */
  | 'enum'
  /** base64 in JSON. */
  | 'bytes'
  /** 16 and 8 bytes, hex in JSON. */
  | 'trace_id'
  | 'span_id'

export interface Field {
  readonly name: string
  readonly number: number
  readonly type: Scalar | Message
  readonly repeated: boolean
}

export interface Message {
  readonly name: string
  readonly fields: readonly Field[]
  /** At most one of the fields may be set, and its default value counts as set. */
  readonly oneof: boolean
}

/** number, type, and 'repeated' for a list. */
type Row = readonly [number, Scalar | Message] | readonly [number, Scalar | Message, 'repeated']

function message(name: string, rows: Readonly<Record<string, Row>>): Message {
  return { name, fields: fields(rows), oneof: false }
}

const fields = (rows: Readonly<Record<string, Row>>): Field[] =>
  Object.entries(rows).map(([name, [number, type, repeated]]) => ({ name, number, type, repeated: repeated !== undefined }))

// An AnyValue may hold lists of AnyValues, so its fields are filled in below.
const valueFields: Field[] = []
export const AnyValue: Message = { name: 'AnyValue', fields: valueFields, oneof: true }
export const KeyValue = message('KeyValue', { key: [1, 'string'], value: [2, AnyValue] })
export const ArrayValue = message('ArrayValue', { values: [1, AnyValue, 'repeated'] })
export const KeyValueList = message('KeyValueList', { values: [1, KeyValue, 'repeated'] })
valueFields.push(
  ...fields({
    stringValue: [1, 'string'],
    boolValue: [2, 'bool'],
    intValue: [3, 'int64'],
    doubleValue: [4, 'double'],
    arrayValue: [5, ArrayValue],
    kvlistValue: [6, KeyValueList],
    bytesValue: [7, 'bytes'],
  }),
)

export const EntityRef = message('EntityRef', {
  schemaUrl: [1, 'string'],
  type: [2, 'string'],
  idKeys: [3, 'string', 'repeated'],
  descriptionKeys: [4, 'string', 'repeated'],
})
export const Resource = message('Resource', {
  attributes: [1, KeyValue, 'repeated'],
  droppedAttributesCount: [2, 'uint32'],
  entityRefs: [3, EntityRef, 'repeated'],
})
export const InstrumentationScope = message('InstrumentationScope', {
  name: [1, 'string'],
  version: [2, 'string'],
  attributes: [3, KeyValue, 'repeated'],
  droppedAttributesCount: [4, 'uint32'],
})

export const Event = message('Event', {
  timeUnixNano: [1, 'fixed64'],
  name: [2, 'string'],
  attributes: [3, KeyValue, 'repeated'],
  droppedAttributesCount: [4, 'uint32'],
})
export const Link = message('Link', {
  traceId: [1, 'trace_id'],
  spanId: [2, 'span_id'],
  traceState: [3, 'string'],
  attributes: [4, KeyValue, 'repeated'],
  droppedAttributesCount: [5, 'uint32'],
  flags: [6, 'fixed32'],
})
export const SpanStatus = message('Status', { message: [2, 'string'], code: [3, 'enum'] })
export const Span = message('Span', {
  traceId: [1, 'trace_id'],
  spanId: [2, 'span_id'],
  traceState: [3, 'string'],
  parentSpanId: [4, 'span_id'],
  name: [5, 'string'],
  kind: [6, 'enum'],
  startTimeUnixNano: [7, 'fixed64'],
  endTimeUnixNano: [8, 'fixed64'],
  attributes: [9, KeyValue, 'repeated'],
  droppedAttributesCount: [10, 'uint32'],
  events: [11, Event, 'repeated'],
  droppedEventsCount: [12, 'uint32'],
  links: [13, Link, 'repeated'],
  droppedLinksCount: [14, 'uint32'],
  status: [15, SpanStatus],
  flags: [16, 'fixed32'],
})
export const ScopeSpans = message('ScopeSpans', {
  scope: [1, InstrumentationScope],
  spans: [2, Span, 'repeated'],
  schemaUrl: [3, 'string'],
})
export const ResourceSpans = message('ResourceSpans', {
  resource: [1, Resource],
  scopeSpans: [2, ScopeSpans, 'repeated'],
  schemaUrl: [3, 'string'],
})

export const LogRecord = message('LogRecord', {
  timeUnixNano: [1, 'fixed64'],
  severityNumber: [2, 'enum'],
  severityText: [3, 'string'],
  body: [5, AnyValue],
  attributes: [6, KeyValue, 'repeated'],
  droppedAttributesCount: [7, 'uint32'],
  flags: [8, 'fixed32'],
  traceId: [9, 'trace_id'],
  spanId: [10, 'span_id'],
  observedTimeUnixNano: [11, 'fixed64'],
  eventName: [12, 'string'],
})
export const ScopeLogs = message('ScopeLogs', {
  scope: [1, InstrumentationScope],
  logRecords: [2, LogRecord, 'repeated'],
  schemaUrl: [3, 'string'],
})
export const ResourceLogs = message('ResourceLogs', {
  resource: [1, Resource],
  scopeLogs: [2, ScopeLogs, 'repeated'],
  schemaUrl: [3, 'string'],
})

export const ExportTraceServiceRequest = message('ExportTraceServiceRequest', { resourceSpans: [1, ResourceSpans, 'repeated'] })
export const ExportLogsServiceRequest = message('ExportLogsServiceRequest', { resourceLogs: [1, ResourceLogs, 'repeated'] })
export const ExportTraceServiceResponse = message('ExportTraceServiceResponse', {
  partialSuccess: [1, message('ExportTracePartialSuccess', { rejectedSpans: [1, 'int64'], errorMessage: [2, 'string'] })],
})
export const ExportLogsServiceResponse = message('ExportLogsServiceResponse', {
  partialSuccess: [1, message('ExportLogsPartialSuccess', { rejectedLogRecords: [1, 'int64'], errorMessage: [2, 'string'] })],
})

// google.rpc, in which errors are told.
export const Any = message('Any', { typeUrl: [1, 'string'], value: [2, 'bytes'] })
export const RpcStatus = message('Status', { code: [1, 'enum'], message: [2, 'string'], details: [3, Any, 'repeated'] })
export const BadRequest = message('BadRequest', {
  fieldViolations: [1, message('FieldViolation', { field: [1, 'string'], description: [2, 'string'] }), 'repeated'],
})
export const RetryInfo = message('RetryInfo', {
  retryDelay: [1, message('Duration', { seconds: [1, 'int64'], nanos: [2, 'uint32'] })],
})

// Everything that pipeline.yaml can name.

import { connectors } from '../connectors/index.ts'
import { exporters } from '../exporters/index.ts'
import { extensions } from '../extensions/index.ts'
import type { Registry } from '../pipeline/component.ts'
import { processors } from '../processors/index.ts'
import { receivers } from '../receivers/index.ts'

export const registry: Registry = { receivers, processors, exporters, connectors, extensions }

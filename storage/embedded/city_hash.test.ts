import { expect, test } from 'vitest'

import { cityHash128 } from './city_hash.ts'

// As the clickhouse-cityhash package for Python (Google's own code, version 1.0.2) says; every branch of the algorithm.
test.each([
  [0, '3df09dfc64c09a2b', '3cb540c392e51e29'],
  [1, 'a04b71ab61de6422', 'f768684937e23970'],
  [3, 'b8e5ce93b6bea43f', '9da4b99dd039c069'],
  [4, 'c2746f3dac8b6281', '8bd6980ab47e71b4'],
  [7, '020c39d687e8a415', 'eaeb5c1cd821666d'],
  [8, '463c4fc987ac1631', '088d821d38763cc6'],
  [9, '22ea7b44281d0d89', '14c80c2ade24f116'],
  [15, '4db9f06071bc910e', 'da01a81d584009f4'],
  [16, '3d9192ff70b7510b', 'e9f696a05d2c6e04'],
  [17, '5e56939a8cb01859', 'a691201f08222155'],
  [24, '1512f723e24bbeda', 'b331c62bd3d4f33f'],
  [31, 'e4242574d0e41656', '95289d1e3f476843'],
  [32, 'f3df42c360a9ff04', 'a1b2ab278439b851'],
  [33, '2e2be714330b9334', '7af7985285230532'],
  [100, 'a6818045b055dd31', '8f69a3d9b83f32f4'],
  [127, '1473f0b854f59e1f', 'ff89fa6627b12645'],
  [128, '47d5af178aa3933d', 'ef094d8de60f7205'],
  [143, '62c211911606fd67', '83b5f37bf12f66a8'],
  [144, '5f93d4e3a094d796', '29d6c49a5cf81bf3'],
  [145, '242df4ebfa70f57f', '0173e3d2c700cd19'],
  [200, '93ffe2744ef2bf2d', '10d32a67b9af5e73'],
  [255, '0088dd282fff7e21', 'a41fc1fce0c35520'],
  [256, '6a087c2f0b86282a', '98df43cd996b4d54'],
  [272, '51f620b18cd6f143', '944b6e818933acb9'],
  [1000, '551b2bd6307d923e', 'a66d3fa178d7701b'],
  [4096, 'b9265daad2f2fc40', '82ddb8bdf6976876'],
  [100003, '412021d472bb280e', '84c6e679282eb423'],
])('%i bytes have the checksum that ClickHouse gives them', (size, low, high) => {
  const bytes = Uint8Array.from({ length: size }, (_, i) => i * i + i * 7 + (i >> 3))
  expect(cityHash128(bytes).map((word) => word.toString(16).padStart(16, '0'))).toEqual([low, high])
})

/**
 * Figures of graphics cards, from their makers' public data sheets, and what the config says instead. Dense peaks: sheets
 * that print the figure for 2:4 sparsity are halved here. `deploy/ceiling.md` shows the same table; a test compares them.
 */
import type { CardName, HardwareSettings } from './settings.ts';

export interface Card {
  readonly name: string;
  /** Dense BF16/FP16 with FP32 accumulation, TFLOP/s; absent where the maker states none. */
  readonly halfTflops?: number;
  /** Dense FP8; absent where the card has none. */
  readonly fp8Tflops?: number;
  /** GB/s, 10^9 bytes. */
  readonly bandwidthGBps: number;
  /** The "GB" of a card's memory are GiB; absent where it is chosen with the machine. */
  readonly memoryGiB?: number;
  readonly source: string;
}

const ampere = 'NVIDIA A100 Tensor Core GPU data sheet';
const hopper = 'NVIDIA H100 Tensor Core GPU data sheet';
const adaPaper = 'NVIDIA Ada GPU architecture whitepaper, appendix A';
const amd = (card: string) => `AMD Instinct ${card} data sheet`;
const apple = (machine: string) => `Apple technical specifications, ${machine}`;

export const cards: Readonly<Record<CardName, Card>> = {
  'a100-40gb': { name: 'A100 40 GB', halfTflops: 312, bandwidthGBps: 1555, memoryGiB: 40, source: ampere },
  'a100-80gb-sxm': { name: 'A100 80 GB SXM', halfTflops: 312, bandwidthGBps: 2039, memoryGiB: 80, source: ampere },
  'a100-80gb-pcie': { name: 'A100 80 GB PCIe', halfTflops: 312, bandwidthGBps: 1935, memoryGiB: 80, source: ampere },
  'h100-sxm': {
    name: 'H100 SXM',
    halfTflops: 989,
    fp8Tflops: 1979,
    bandwidthGBps: 3350,
    memoryGiB: 80,
    source: hopper,
  },
  'h100-pcie': {
    name: 'H100 PCIe',
    halfTflops: 756,
    fp8Tflops: 1513,
    bandwidthGBps: 2000,
    memoryGiB: 80,
    source: hopper,
  },
  'h100-nvl': {
    name: 'H100 NVL',
    halfTflops: 835,
    fp8Tflops: 1671,
    bandwidthGBps: 3900,
    memoryGiB: 94,
    source: hopper,
  },
  'h200-sxm': {
    name: 'H200 SXM',
    halfTflops: 989,
    fp8Tflops: 1979,
    bandwidthGBps: 4800,
    memoryGiB: 141,
    source: 'NVIDIA H200 Tensor Core GPU data sheet',
  },
  'b200-sxm': {
    name: 'B200 SXM',
    halfTflops: 2250,
    fp8Tflops: 4500,
    bandwidthGBps: 8000,
    memoryGiB: 180,
    source: 'NVIDIA HGX B200 and Blackwell architecture data sheets',
  },
  l40s: {
    name: 'L40S',
    halfTflops: 362,
    fp8Tflops: 733,
    bandwidthGBps: 864,
    memoryGiB: 48,
    source: 'NVIDIA L40S data sheet',
  },
  l4: {
    name: 'L4',
    halfTflops: 121,
    fp8Tflops: 242,
    bandwidthGBps: 300,
    memoryGiB: 24,
    source: 'NVIDIA L4 Tensor Core GPU data sheet',
  },
  a10: {
    name: 'A10',
    halfTflops: 125,
    bandwidthGBps: 600,
    memoryGiB: 24,
    source: 'NVIDIA A10 Tensor Core GPU data sheet',
  },
  a30: {
    name: 'A30',
    halfTflops: 165,
    bandwidthGBps: 933,
    memoryGiB: 24,
    source: 'NVIDIA A30 Tensor Core GPU data sheet',
  },
  a40: { name: 'A40', halfTflops: 149.7, bandwidthGBps: 696, memoryGiB: 48, source: 'NVIDIA A40 data sheet' },
  t4: { name: 'T4', halfTflops: 65, bandwidthGBps: 320, memoryGiB: 16, source: 'NVIDIA T4 Tensor Core GPU data sheet' },
  'rtx-3090': {
    name: 'GeForce RTX 3090',
    halfTflops: 71,
    bandwidthGBps: 936,
    memoryGiB: 24,
    source: 'NVIDIA Ampere GA102 GPU architecture whitepaper, appendix A',
  },
  'rtx-4090': {
    name: 'GeForce RTX 4090',
    halfTflops: 165.2,
    fp8Tflops: 330.3,
    bandwidthGBps: 1008,
    memoryGiB: 24,
    source: adaPaper,
  },
  'rtx-5090': {
    name: 'GeForce RTX 5090',
    halfTflops: 209.5,
    fp8Tflops: 419,
    bandwidthGBps: 1792,
    memoryGiB: 32,
    source: 'NVIDIA RTX Blackwell GPU architecture whitepaper, appendix A',
  },
  'rtx-a6000': {
    name: 'RTX A6000',
    halfTflops: 154.8,
    bandwidthGBps: 768,
    memoryGiB: 48,
    source: 'NVIDIA RTX A6000 data sheet',
  },
  'rtx-6000-ada': {
    name: 'RTX 6000 Ada',
    halfTflops: 364.2,
    fp8Tflops: 728.5,
    bandwidthGBps: 960,
    memoryGiB: 48,
    source: 'NVIDIA RTX 6000 Ada Generation data sheet',
  },
  // Both dies of one OAM module.
  mi250x: { name: 'MI250X', halfTflops: 383, bandwidthGBps: 3277, memoryGiB: 128, source: amd('MI250X') },
  mi300x: {
    name: 'MI300X',
    halfTflops: 1307,
    fp8Tflops: 2615,
    bandwidthGBps: 5300,
    memoryGiB: 192,
    source: amd('MI300X'),
  },
  mi325x: {
    name: 'MI325X',
    halfTflops: 1307,
    fp8Tflops: 2615,
    bandwidthGBps: 6000,
    memoryGiB: 256,
    source: amd('MI325X'),
  },
  mi355x: {
    name: 'MI355X',
    halfTflops: 2500,
    fp8Tflops: 5000,
    bandwidthGBps: 8000,
    memoryGiB: 288,
    source: amd('MI355X'),
  },
  'm1-max': { name: 'Apple M1 Max', bandwidthGBps: 400, source: apple('MacBook Pro 2021') },
  'm1-ultra': { name: 'Apple M1 Ultra', bandwidthGBps: 800, source: apple('Mac Studio 2022') },
  'm2-max': { name: 'Apple M2 Max', bandwidthGBps: 400, source: apple('MacBook Pro 2023') },
  'm2-ultra': { name: 'Apple M2 Ultra', bandwidthGBps: 800, source: apple('Mac Studio 2023') },
  // The larger of its two versions; the 30-core GPU has 300.
  'm3-max': { name: 'Apple M3 Max (40-core GPU)', bandwidthGBps: 400, source: apple('MacBook Pro Nov 2023') },
  'm3-ultra': { name: 'Apple M3 Ultra', bandwidthGBps: 819, source: apple('Mac Studio 2025') },
  m4: { name: 'Apple M4', bandwidthGBps: 120, source: apple('Mac mini 2024') },
  'm4-pro': { name: 'Apple M4 Pro', bandwidthGBps: 273, source: apple('Mac mini 2024') },
  // The larger of its two versions; the 32-core GPU has 410.
  'm4-max': { name: 'Apple M4 Max (40-core GPU)', bandwidthGBps: 546, source: apple('MacBook Pro 2024') },
  m5: { name: 'Apple M5', bandwidthGBps: 153, source: apple('MacBook Pro 2025') },
  'm5-pro': { name: 'Apple M5 Pro', bandwidthGBps: 307, source: apple('MacBook Pro 2026') },
  // The larger of its two versions; the 32-core GPU has 460.
  'm5-max': { name: 'Apple M5 Max (40-core GPU)', bandwidthGBps: 614, source: apple('MacBook Pro 2026') },
};

/** What one backend's cards can do, all of them together. Absent: not known. */
export interface Hardware {
  readonly card?: string;
  readonly count: number;
  /** FLOP/s of all cards at 16 and at 8 bits. */
  readonly halfFlops?: number;
  readonly fp8Flops?: number;
  /** Bytes/s of all cards. */
  readonly bandwidth?: number;
  readonly memoryBytes?: number;
  readonly pricePerHour?: number;
}

const tera = 1e12;
const giga = 1e9;

/**
 * Table and config joined; the config wins. A configured `peakTflops` is the peak at whatever precision the model has.
 * Tensor parallelism over `count` cards is taken to add up fully: the ceiling of real ones is lower.
 */
export function hardwareOf(settings: HardwareSettings): Hardware {
  const card = settings.gpu === undefined ? undefined : cards[settings.gpu];
  const count = settings.count ?? 1;
  const half = settings.peakTflops ?? card?.halfTflops;
  const fp8 = settings.peakTflops ?? card?.fp8Tflops;
  const bandwidth = settings.bandwidthGBps ?? card?.bandwidthGBps;
  const memoryGiB = settings.memoryGiB ?? card?.memoryGiB;
  return {
    count,
    ...(card === undefined ? {} : { card: card.name }),
    ...(half === undefined ? {} : { halfFlops: half * tera * count }),
    ...(fp8 === undefined ? {} : { fp8Flops: fp8 * tera * count }),
    ...(bandwidth === undefined ? {} : { bandwidth: bandwidth * giga * count }),
    ...(memoryGiB === undefined ? {} : { memoryBytes: memoryGiB * 2 ** 30 * count }),
    ...(settings.pricePerHour === undefined ? {} : { pricePerHour: settings.pricePerHour }),
  };
}

"use strict";
// What the page of live charts makes of numbers. No page is needed to run it.

const HOLD_S = 3; // how long a figure stands that nothing newer is known of

/**
 * A counter's growth a second. times: of which moments the values are; now: when they were taken down. Where none is new,
 * because it came late, the rate stays. A gap where it was not measured, or was started anew.
 */
function growth(values, times, now) {
  let last = null;
  let rate = null;
  return values.map((value, at) => {
    const time = times[at];
    if (value === null || time === null) {
      last = rate = null;
    } else if (last === null || time > last.time) {
      rate = last === null || value < last.value ? null : (value - last.value) / (time - last.time);
      last = { time, value };
    } else if (now[at] - last.time > HOLD_S) {
      rate = null;
    }
    return rate;
  });
}

/** Values with the last one in place of those that did not come; a gap where none comes for long. */
function held(values, now) {
  let last = null;
  return values.map((value, at) => {
    if (value !== null) last = { time: now[at], value };
    return last !== null && now[at] - last.time <= HOLD_S ? last.value : null;
  });
}

/** How many decimals a number has. */
const decimals = (value) => (String(value).split(".")[1] || "").length;

function number(value, digits = 0, least = 0) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: least, maximumFractionDigits: digits });
}

/** Numbers of an axis, as many decimals to each as the step between them has. */
const numbers = (values, step) => values.map((value) => number(value, decimals(step), decimals(step)));

const sizeUnit = (bytes) => (bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : [1e3, "kB"]);

function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const [factor, unit] = sizeUnit(bytes);
  return `${number(bytes / factor, unit === "GB" ? 2 : 0, unit === "GB" ? 2 : 0)} ${unit}`;
}

/** Sizes of an axis, all of them in the unit that suits the largest. */
function sizes(values, step) {
  const [factor, unit] = sizeUnit(Math.max(...values));
  return numbers(values.map((value) => value / factor), step / factor).map((text) => `${text} ${unit}`);
}

function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

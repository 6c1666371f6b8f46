// The way into what an item has inside: the blocks of a cond or a while, in the order they may run. Walks over blocks
// go through here (for_each_item in loops.h does), so that a new kind of item with blocks is entered by all of them.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

template <class ItemType, class F>  // Item& or const Item&
void for_each_block(ItemType& item, const F& f) {
  if (auto* cond = std::get_if<Cond>(&item.what)) {
    if (cond->then_block) f(*cond->then_block);
    if (cond->else_block) f(*cond->else_block);
  } else if (auto* loop = std::get_if<While>(&item.what)) {
    if (loop->condition_block) f(*loop->condition_block);
    if (loop->body_block) f(*loop->body_block);
  }
}

}  // namespace kiln::loops
